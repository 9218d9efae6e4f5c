"""What a sender knows of its sinks."""

from walflow.delivery.sink_record import SinkRecord


def test_a_sink_has_passed_what_is_as_new_as_the_newest_it_has_taken() -> None:
    record = SinkRecord()
    record.took({"f::sink"}, 5, 1)
    record.took({"f::sink"}, 3, 2)
    assert record.has_passed({"f::sink", "f::other"}, 5)
    assert not record.has_passed({"f::sink"}, 6)
    assert not record.has_passed({"f::other"}, 1)
