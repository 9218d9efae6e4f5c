"""`for`: comprehensions, and loops that do something. What each construct gives is in `tests/language`."""

from tests.compile.world import KEPT, read, read_script, script


def test_a_loop_may_do_something() -> None:
    made = script(
        """
        let sum = 0;
        for event.list of
          case (i, e) when e > 100 => emit {"large": e} => "large"
          case (i, e) when e < 0 => drop
          case (i, e) => let sum = sum + e
        end;
        let event.sum = sum;
        event
        """
    )
    events = [{"list": [1, 2]}, {"list": [1, 101, 2]}, {"list": [-1, 101]}, {"list": []}]
    assert made.run(*events) == [
        ("out", {"list": [1, 2], "sum": 3}),
        ("large", {"large": 101}),
        None,
        ("out", {"list": [], "sum": 0}),
    ]


def test_a_script_is_left_out_of_loops_within_loops() -> None:
    made = script(
        """
        for event of case (i, row) =>
          for row of
            case (j, e) when e == 0 => emit [i, j]
            case (j, e) => null
          end
        end;
        event
        """
    )
    assert made.run([[1, 2], [3, 0], [0]], [[1]]) == [("out", [1, 1]), ("out", KEPT)]


def test_what_is_gone_through_does_not_change_on_the_way() -> None:
    made = script('for event of case (k, v) => let event["#{k}#{k}"] = v end; event')
    assert made.run({"a": 1, "b": 2}) == [("out", {"a": 1, "b": 2, "aa": 1, "bb": 2})]


def test_an_element_out_of_range_is_an_error_where_it_is_read() -> None:
    made = script("for event of case (i, e) when i > 0 => e + 1 case (i, e) => 0 end")
    assert made.run([1 << 70, 1]) == [("out", [0, 2])]
    assert made.run([0, 1 << 70]) == ["a number out of range: whole numbers reach from -2^63 to 2^64-1"]


def test_names_of_a_case_are_known_in_it() -> None:
    found, said = read("for event of case (i, e) => i case (j, f) => e end")
    assert found is None
    assert said == ["unknown constant `e`"]
    found_script, said = read_script("let e = 5; for event of case (i, e) => e end; e")
    assert found_script is not None
    assert found_script.run([1]) == [("out", 5)]
