from __future__ import annotations

from handtorch.place.decide import Decision, Target, decide
from handtorch.place.known import Known
from handtorch.place.policy import Policy
from handtorch.place.situation import CLOUD, DEVICE, Candidate


def one(name: str, seconds: float, p90_s: float | None = None) -> Candidate:
    known = Known(seconds, "measured", "test")
    return Candidate(name, CLOUD if name.startswith("cloud") else DEVICE, known,
                     Known(p90_s or seconds, "measured", "test"), known, known, {}, {})


def ask(here: float, there: float, target: Target | None = None, *,
        here_p90: float | None = None, there_p90: float | None = None) -> Decision:
    return decide((one("device", here, here_p90), one("cloud", there, there_p90)),
                  target or Target())


def test_a_small_gain_is_not_followed_a_lasting_one_is_and_a_large_one_at_once() -> None:
    policy = Policy()
    assert policy.choose(ask(1.0, 2.0)).candidate.name == "device"
    slight = policy.choose(ask(1.0, 0.95))
    assert (slight.kind, slight.candidate.name) == ("stay", "device")
    assert slight.detail == "cloud is only 5.0% better"
    assert policy.choose(ask(1.0, 0.9)).kind == "wait"
    assert policy.choose(ask(1.0, 0.9)).kind == "switch"
    large = policy.choose(ask(0.5, 0.9))
    assert (large.kind, large.candidate.name) == ("switch", "device")


def test_a_gain_that_does_not_last_begins_anew() -> None:
    policy = Policy()
    policy.choose(ask(1.0, 2.0))
    kinds = [policy.choose(ask(1.0, there)).kind for there in (0.9, 1.1, 0.9)]
    assert kinds == ["wait", "stay", "wait"]


def test_a_limit_that_is_broken_ends_all_patience() -> None:
    policy, target = Policy(), Target(p90_s=1.0)
    policy.choose(ask(0.90, 2.0, target))
    found = policy.choose(ask(0.90, 0.91, target, here_p90=1.5, there_p90=0.95))
    assert (found.kind, found.candidate.name) == ("switch", "cloud")


def test_a_way_that_is_gone_is_left() -> None:
    policy = Policy()
    policy.choose(ask(1.0, 0.5))
    found = policy.choose(decide((one("device", 1.0),), Target()))
    assert (found.kind, found.candidate.name) == ("switch", "device")
    assert found.detail == "cloud cannot be taken now"


def test_probes_cost_no_more_than_their_share() -> None:
    """A place ten times as slow, never seen fresh: over a thousand calls it is looked at, and all
    looks together cost a hundredth."""
    policy, probes, spent, usual = Policy(), 0, 0.0, 0.0
    for _ in range(1000):
        choice = policy.choose(ask(1.0, 10.0), stale=("cloud",))
        cost = 10.0 if choice.kind == "probe" else 1.0
        policy.paid(choice, cost)
        if choice.kind == "probe":
            probes, spent = probes + 1, spent + cost - 1.0
        else:
            usual += cost
    assert probes >= 1
    assert spent <= 0.01 * usual


def test_a_probe_never_breaks_a_limit_and_no_look_is_paid_for_what_is_in_use() -> None:
    policy, target = Policy(), Target(p90_s=1.0)
    for _ in range(500):
        choice = policy.choose(ask(0.5, 0.5001, target, there_p90=2.0), stale=("cloud",))
        assert choice.kind == "stay"
        policy.paid(choice, 0.5)
    assert policy.choose(ask(0.5, 0.6), stale=("device",)).kind == "stay"


def test_a_cheap_look_is_made_soon() -> None:
    policy = Policy()
    first = policy.choose(ask(1.0, 1.005), stale=("cloud",))
    assert first.kind == "stay"
    policy.paid(first, 1.0)
    found = policy.choose(ask(1.0, 1.005), stale=("cloud",))
    assert (found.kind, found.candidate.name, found.usual_cost) == ("probe", "cloud", 1.0)
