"""Templates are rendered as by Go's text/template; expected results are the output of Go unless noted."""

import pytest

from launcher.converters.gotemplate.parser import parse
from launcher.converters.gotemplate.renderer import render
from launcher.core.errors import BadRequest

VALUES = {"type": "ps", "index": "0", "host": "h10", "empty": ""}


def filled_in(template: str) -> str:
    return render(parse(template), VALUES, lambda written, value: value)


@pytest.mark.parametrize(
    ("template", "output"),
    [
        pytest.param("a{{.host}}b", "ah10b", id="a variable"),
        pytest.param("{{ .host }}", "h10", id="white space inside"),
        pytest.param("a \n {{- .host -}} \n b", "ah10b", id="trimming on both sides"),
        pytest.param("a {{-3}}", "a -3", id="a minus without white space trims nothing"),
        pytest.param("a{{/* {{.nope}} */}}b", "ab", id="a comment"),
        pytest.param("a {{- /* x */ -}} b", "ab", id="a comment that trims"),
        pytest.param("a\n\n{{- if true}}\nb\n{{- end}}\nc", "a\nb\nc", id="blocks that leave no empty lines"),
        pytest.param("{{.host}}}}", "h10}}", id="closing braces in text"),
        pytest.param('{{"}}"}}', "}}", id="closing braces in a string"),
        pytest.param('{{"{{FC_TASK_INDEX}}"}}', "{{FC_TASK_INDEX}}", id="braces for others to read"),
        pytest.param('{{`a"b`}}', 'a"b', id="a raw string"),
        pytest.param(r'{{"a\tb"}}', "a\tb", id="an escape"),
        pytest.param('{{if eq .type "ps"}}a{{else}}b{{end}}', "a", id="if"),
        pytest.param('{{if eq .type "worker"}}a{{else}}b{{end}}', "b", id="else"),
        pytest.param("{{if .empty}}a{{end}}b", "b", id="empty text is false"),
        pytest.param('{{if eq .type "x"}}a{{else if eq .index "0"}}b{{else}}c{{end}}', "b", id="else if"),
        pytest.param('{{if and (eq .type "ps") (ne .index "1")}}y{{end}}', "y", id="parentheses"),
        pytest.param(
            "{{with .host}}{{.}} {{$.type}}{{end}}", "h10 ps", id="with moves the dot, not the dollar"
        ),
        pytest.param("{{with .empty}}a{{else}}{{.host}}{{end}}", "h10", id="with of nothing"),
        pytest.param('{{$x := .host}}{{$x}}{{$x = "q"}}{{$x}}', "h10q", id="a variable of its own"),
        pytest.param(
            '{{$x := "a"}}{{if true}}{{$x := "b"}}{{end}}{{$x}}', "a", id="declared inside, gone outside"
        ),
        pytest.param('{{$x := "a"}}{{if true}}{{$x = "b"}}{{end}}{{$x}}', "b", id="set inside, set outside"),
        pytest.param("{{if $y := .host}}{{$y}}{{end}}", "h10", id="declared by if"),
        pytest.param('{{.host | printf "%s-%q" "a"}}', 'a-"h10"', id="a pipeline gives the last argument"),
        pytest.param(
            '{{printf "%4s|%-4s|%04d|%v|%t|%%" .host .type 42 7 true}}', " h10|ps  |0042|7|true|%", id="verbs"
        ),
        pytest.param('{{print 1 2 "a" 3 4}}', "1 2a3 4", id="print puts spaces between numbers only"),
        pytest.param('{{println "a" 1}}', "a 1\n", id="println puts spaces everywhere"),
        pytest.param("{{len .host}}", "3", id="len"),
        pytest.param(
            "{{eq 1 2 1}} {{ne 1 2}} {{lt 1 2}} {{le 2 2}} {{gt 1 2}} {{ge 1 2}}",
            "true true true true false false",
            id="comparisons",
        ),
        pytest.param("{{and .host .type}} {{or .empty .host}} {{not .empty}}", "ps h10 true", id="logic"),
    ],
)
def test_a_template_is_rendered_as_by_go(template: str, output: str) -> None:
    assert filled_in(template) == output


@pytest.mark.parametrize(
    ("template", "message"),
    [
        pytest.param(
            "a\n{{.nope}}",
            "line 2: no variable {{.nope}}; there are {{.type}}",
            id="no such variable",
        ),
        pytest.param(
            "{{FC_TASK_INDEX}}", 'is written {{"{{FC_TASK_INDEX}}"}}', id="a placeholder of the launcher's"
        ),
        pytest.param("{{range .}}{{end}}", "line 1: range is not supported; supported: if, with", id="range"),
        pytest.param('{{template "x"}}', "line 1: template is not supported", id="template"),
        pytest.param("{{.host | html}}", "line 1: html is not supported", id="a function of Go's"),
        pytest.param("x{{\n\n", "line 1: {{ is not closed", id="not closed"),
        pytest.param("{{ }}", "line 1: empty action", id="empty"),
        pytest.param("\n{{if .host}}a", "line 2: {{if}} without {{end}}", id="no end"),
        pytest.param(
            "{{if .host}}{{else}}{{else}}{{end}}", "line 1: {{if}} without {{end}}", id="else twice"
        ),
        pytest.param("a{{end}}", "line 1: {{end}} without if or with", id="end alone"),
        pytest.param("{{if .host}}{{end x}}", "line 1: unexpected 'x' after end", id="more behind end"),
        pytest.param("{{.host .type}}", "line 1: only a function has arguments", id="two values"),
        pytest.param("{{.host | .type}}", "line 1: a function must follow |", id="a pipe into a value"),
        pytest.param("{{.host.}}", "line 1: unexpected '.'", id="a dot too many"),
        pytest.param("{{len (.host}}", "line 1: ( is not closed", id="a parenthesis"),
        pytest.param("{{1.5}}", "line 1: unexpected '1.5'", id="a fraction"),
        pytest.param(r'{{"\q"}}', "has an unsupported escape", id="an escape"),
        pytest.param("{{$x}}", "line 1: no variable $x; declare it with {{$x := …}}", id="undeclared"),
        pytest.param("{{$x = 1}}", "line 1: no variable $x", id="set before it is declared"),
        pytest.param("{{eq .index 0}}", 'so write a number in quotes: "0"', id="text and number"),
        pytest.param("{{eq .host}}", "eq needs two arguments", id="eq of one"),
        pytest.param("{{lt 1 2 3}}", "lt needs two arguments, not 3", id="lt of three"),
        pytest.param("{{not}}", "not cannot be called with 0 arguments", id="not of nothing"),
        pytest.param("{{len 3}}", "len needs a string, not 3 (number)", id="len of a number"),
        pytest.param(
            '{{printf "%d" .index}}', '%d does not match "0" (string)', id="a verb that does not fit"
        ),
        pytest.param(
            '{{printf "%999999999999s" .host}}',
            "the width of %999999999999s must be below 10000",
            id="a width that would take a terabyte",
        ),
        pytest.param('{{printf "%s"}}', "no argument for %s", id="a verb too many"),
        pytest.param('{{printf "x" 1}}', "1 more arguments than verbs", id="a value too many"),
        pytest.param("{{printf 1}}", "printf needs a format string", id="no form"),
        pytest.param("{{.}}", "name a variable, as in {{.host}}", id="all variables at once"),
        pytest.param("{{len .}}", "len cannot be applied to .", id="all variables as an argument"),
        pytest.param("{{with .host}}{{.type}}{{end}}", "inside with, write $.type", id="a field of text"),
    ],
)
def test_an_error_in_a_template_is_reported_with_its_line(template: str, message: str) -> None:
    with pytest.raises(BadRequest) as raised:
        filled_in(template)

    assert str(raised.value).startswith("line ")
    assert message in str(raised.value)


def test_line_numbers_in_errors_are_those_of_the_file() -> None:
    with pytest.raises(BadRequest, match=r"^line 5: "):
        parse("a\n{{nope}}", first_line=4)
