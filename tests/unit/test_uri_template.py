"""URI templates: the examples of RFC 6570, matching back, refusals, hostile input (SF-20, SF-24)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import UsageError
from headrace.server.uri_template import UriTemplate, _expand, _parse

VALUES = {
    "count": ["one", "two", "three"], "dom": ["example", "com"], "dub": "me/too", "hello": "Hello World!", "half": "50%",
    "var": "value", "who": "fred", "base": "http://example.com/home/", "path": "/foo/bar", "list": ["red", "green", "blue"],
    "keys": {"semi": ";", "dot": ".", "comma": ","}, "v": "6", "x": "1024", "y": "768", "empty": "", "empty_keys": {},
    "undef": None,
}  # fmt: skip

EXAMPLES = """
{count} one,two,three|{count*} one,two,three|{/count} /one,two,three|{/count*} /one/two/three|{;count} ;count=one,two,three
{;count*} ;count=one;count=two;count=three|{?count} ?count=one,two,three|{?count*} ?count=one&count=two&count=three
{&count*} &count=one&count=two&count=three|{var} value|{hello} Hello%20World%21|{half} 50%25|O{empty}X OX|O{undef}X OX
{x,y} 1024,768|{x,hello,y} 1024,Hello%20World%21,768|?{x,empty} ?1024,|?{x,undef} ?1024|?{undef,y} ?768|{var:3} val
{var:30} value|{list} red,green,blue|{keys} semi,%3B,dot,.,comma,%2C|{keys*} semi=%3B,dot=.,comma=%2C|{+var} value
{+hello} Hello%20World!|{+half} 50%25|{base}index http%3A%2F%2Fexample.com%2Fhome%2Findex
{+base}index http://example.com/home/index|O{+empty}X OX|{+path}/here /foo/bar/here|here?ref={+path} here?ref=/foo/bar
up{+path}{var}/here up/foo/barvalue/here|{+x,hello,y} 1024,Hello%20World!,768|{+path,x}/here /foo/bar,1024/here
{+path:6}/here /foo/b/here|{+list} red,green,blue|{+keys} semi,;,dot,.,comma,,|{+keys*} semi=;,dot=.,comma=,|{#var} #value
{#hello} #Hello%20World!|{#half} #50%25|foo{#empty} foo#|foo{#undef} foo|{#x,hello,y} #1024,Hello%20World!,768
{#path,x}/here #/foo/bar,1024/here|{#path:6}/here #/foo/b/here|{#keys} #semi,;,dot,.,comma,,|{.who} .fred
{.who,who} .fred.fred|{.half,who} .50%25.fred|www{.dom*} www.example.com|X{.var} X.value|X{.empty} X.|X{.undef} X
X{.var:3} X.val|X{.list} X.red,green,blue|X{.list*} X.red.green.blue|X{.keys*} X.semi=%3B.dot=..comma=%2C
X{.empty_keys} X|{/who} /fred|{/half,who} /50%25/fred|{/who,dub} /fred/me%2Ftoo|{/var,empty} /value/|{/var,undef} /value
{/var,x}/here /value/1024/here|{/var:1,var} /v/value|{/list*,path:4} /red/green/blue/%2Ffoo|{/keys*} /semi=%3B/dot=./comma=%2C
{;who} ;who=fred|{;half} ;half=50%25|{;empty} ;empty|{;v,empty,who} ;v=6;empty;who=fred|{;v,undef,who} ;v=6;who=fred
{;hello:5} ;hello=Hello|{;list*} ;list=red;list=green;list=blue|{;keys*} ;semi=%3B;dot=.;comma=%2C|{?x,y,empty} ?x=1024&y=768&empty=
{?x,y,undef} ?x=1024&y=768|{?var:3} ?var=val|{?keys*} ?semi=%3B&dot=.&comma=%2C|{&x,y,empty} &x=1024&y=768&empty=
?fixed=yes{&x} ?fixed=yes&x=1024|{&keys} &keys=semi,%3B,dot,.,comma,%2C
"""  # of sections 3.2.2 to 3.2.9


@pytest.mark.parametrize("line", [e for row in EXAMPLES.strip().splitlines() for e in row.split("|")])
def test_rfc6570_expansion(line):
    template, _, expected = line.partition(" ")
    found = "".join(part if isinstance(part, str) else _expand(part, VALUES) for part in _parse(template))
    assert found == expected


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("a://{x}", "a://b", {"x": "b"}),
        ("a://{x}", "a://b/c", None),
        ("a://{x}", "a://", None),
        ("a://{x}/{y}", "a://b/c%2Fd", {"x": "b", "y": "c/d"}),
        ("a://{x}/", "a://b", None),
        ("a://{x,y}", "a://1,2", {"x": "1", "y": "2"}),
        ("file:///{+path}", "file:///a/b.txt", {"path": "a/b.txt"}),
        ("f://{+path}/{name}", "f://a/b/c", {"path": "a/b", "name": "c"}),
        ("f://{a}/{b}-x/{c}", "f://1/2-x-x/3", {"a": "1", "b": "2-x", "c": "3"}),
        ("f://{+path}{?r,q}", "f://a/b?q=1&r=%20", {"path": "a/b", "q": "1", "r": " "}),
        ("f://{+path}{?r,q}", "f://a/b", {"path": "a/b"}),
        ("f://x{?q}", "f://x?q=1&other=2", None),
        ("f://x{?q}", "f://x?q=1&q=2", None),
        ("f://x{?l*}", "f://x?l=1&l=2", {"l": ["1", "2"]}),
        ("f://x{/s*}", "f://x/1/2%2F3", {"s": ["1", "2/3"]}),
        ("f://x{/s*}/end", "f://x/1/2/end", {"s": ["1", "2"]}),
        ("f://{l*}", "f://1,2", {"l": ["1", "2"]}),
        ("f://{host}:{port}", "f://h:80", {"host": "h", "port": "80"}),
        ("f://{mail}", "f://a@b.c", {"mail": "a@b.c"}),
        ("f://x{;a,b}", "f://x;b=1;a", {"a": "", "b": "1"}),
        ("f://x{#part}", "f://x#a/b?c", {"part": "a/b?c"}),
        ("f://x?k=v{&a}", "f://x?k=v&a=1", {"a": "1"}),
        ("f://x?k=v{&a}", "f://x?k=v", {}),
        ("f://x{?a}{&b}", "f://x?b=2&a=1", {"a": "1", "b": "2"}),
        ("f://x{.ext}", "f://x.json", {"ext": "json"}),
        ("f://{x}", "f://é", {"x": "é"}),
        ("f://{x}", "f://%C3%A9", {"x": "é"}),
        ("f://é/{x}", "f://%C3%A9/1", {"x": "1"}),
        ("f://{x}", "f://%ff", None),
        ("f://{x}", "f://%2", None),
        ("f://{x}", "f://\ud800", None),
        ("f://{x}", "f://a b", None),
        ("f://{x}", "f://%2500", {"x": "%00"}),
    ],
)
def test_matching(template, uri, values):
    assert UriTemplate(template).match(uri) == values


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("a://{x}{y}", "nothing stands between"), ("a://{+x}/{+y}", "cannot be told apart"),
        ("a://{a}-{b}", "cannot be told apart"), ("a://{x}.{y}", "cannot be told apart"), ("a://{x:3}", "length"),
        ("{x}", "scheme"), ("a://{x", "no expression"), ("a://{x}}", "holds what"), ("a://{x}/{x}", "twice"),
        ("a://{?q}/b", "at its end"), ("a://{.x*}", "cannot be told apart"), ("a://{+a*}", "cannot be told apart"),
        ("a:// {x}", "holds what"), ("a://{!x}", "no expression"), ("a://{}", "no expression"), ("a://{x,}", "no expression"),
        ("a://{x**}", "no expression"), ("a://%zz{x}", "holds what"), ("a://{a}%2d{b}", "cannot be told apart"),
    ],
)  # fmt: skip
def test_refused_with_a_plain_reason(template, text):
    with pytest.raises(UsageError, match=text) as caught:
        UriTemplate(template)
    assert "\n" not in str(caught.value)


TEMPLATES = ["a://{x}/{y}", "a://{x}{/y}", "a://p/{x}{?y}", "a://{+z}/{y}", "a://{+z}{?x,y}", "a://{x}{;y}", "a://{x}{#z}", "a://{x,y}"]
texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(TEMPLATES), texts, texts, st.text("abc/.-é", min_size=1, max_size=12))
def test_what_was_expanded_matches_back(template, x, y, z):
    made = UriTemplate(template)
    values = {name: {"x": x, "y": y, "z": z}[name] for name in made.variables}
    assert made.match(made.expand(values)) == values


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(TEMPLATES), st.text("ab/?#&;=%2Fé\x00:,", max_size=40))
def test_any_text_matches_or_not(template, tail):
    found = UriTemplate(template).match("a://" + tail)
    assert found is None or set(found) <= set(UriTemplate(template).variables)


@pytest.mark.parametrize("template", ["a://{+p}/{x}/{y}.md", "a://{x}/{+p}-{#f}", "a://{/s*}/x/{y}", "a://{+p}/{x}{?q}", "a://{+p}aa/{x}"])
@pytest.mark.parametrize("piece", ["/", "a", "a/", "/a-", "%61", "//x/", "aa/", "é"])
def test_no_catastrophic_backtracking(template, piece):
    """8 KiB of the worst that each template can be given end without a match, in bounded work."""
    try:
        made = UriTemplate(template)
    except UsageError:
        return
    for end in ("\x00", "?", "#", "%", ""):
        uri = "a://" + piece * (8000 // len(piece)) + end
        assert made.match(uri) is None or end in ("", "?", "#")


def test_sf24_values_that_climb():
    inside = UriTemplate("file:///{+p}")
    whole = UriTemplate("file://{+p}")
    other = UriTemplate("kv://{key}")
    for uri in ("file:///../b", "file:////etc", "file:///%2e%2e/x", "file:///a%00", "file:///C:/x", "file:///a/..%5cb"):
        assert inside.climbs(inside.match(uri))
    assert not inside.climbs(inside.match("file:///a..b/c...d"))
    assert not whole.climbs(whole.match("file:///etc/hosts")) and whole.climbs(whole.match("file:///etc/../x"))
    assert not other.climbs({"key": "/a"}) and other.climbs({"key": "a/../b"})
