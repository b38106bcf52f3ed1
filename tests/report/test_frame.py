from __future__ import annotations

from typing import Any

from handtorch.report.frame import document, section


def test_each_section_has_a_link_of_its_own_and_empty_ones_are_not_there(parse: Any) -> None:
    page = parse(document("T & U", "<h1>T</h1>", [
        section("Study: a/b", ["x"]), section("Study: a b", ["y"]), section("Empty", ["", ""]),
        section("<b>", ["z"])]))
    assert [e.attrs["id"] for e in page.all("section")] == ["study-a-b", "study-a-b-2", "b"]
    assert [e.attrs["href"] for e in page.all("a")] == [
        "#main", "#study-a-b", "#study-a-b-2", "#b"]
    assert [e.text for e in page.all("h2")] == ["Study: a/b", "Study: a b", "<b>"]
    assert page.all("title")[0].text == "T & U"
