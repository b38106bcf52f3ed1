"""Steps -> Plan: where every value lies in the arena, and the proof that nothing overlaps."""
