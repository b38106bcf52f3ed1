// Reads what packed.py wrote: spans as start, end and label, each in an array of its own.
function unpacked(text, count) {
  const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  const start = new Float64Array(count), end = new Float64Array(count);
  const label = new Uint32Array(count);
  let at = 0, reached = 0;
  const next = () => {
    let value = 0, scale = 1, byte;
    do {
      byte = bytes[at++];
      value += (byte & 127) * scale;      // not a shift: times take more than 32 bits
      scale *= 128;
    } while (byte > 127);
    return value;
  };
  for (let i = 0; i < count; i++) {
    start[i] = reached + next();
    reached = end[i] = start[i] + next();
    label[i] = next();
  }
  return {start, end, label, count};
}

// The first span that ends after `time`; `count` if none does.
function firstAfter(row, time) {
  let low = 0, high = row.count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row.end[middle] > time) high = middle; else low = middle + 1;
  }
  return low;
}
