"""The keys that a path's own link and a shared link have in common."""

from __future__ import annotations

from anabranch.scenario import models


def test_path_and_link_declare_no_key_of_their_common_base_again():
    common = set(models.LinkKeys.model_fields)
    assert len(common) == 15  # `name`, `down`, `up` and 12 properties of a link
    for table in (models.Path, models.Link):
        assert issubclass(table, models.LinkKeys)
        assert common < set(table.model_fields)
        assert not common & set(vars(table)["__annotations__"])


def test_a_key_of_a_path_alone_or_a_link_alone_is_not_in_the_base():
    alone = set(models.Path.model_fields) ^ set(models.Link.model_fields)
    assert alone & set(models.LinkKeys.model_fields) == set()
    assert {"rtt", "delay", "family"} < alone
