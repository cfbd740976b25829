"""HTML pages of reports."""

from rl_training.experiment.html_page import Html, element, html_page, to_html


def test_markdown_becomes_html() -> None:
    text = "| a | b |\n|---|---|\n| 1 < 2 | **x** |\n\n- one\n- two\n\nplain\ntext"
    assert to_html(text) == (
        '<div class="tables"><table><tr><th>a</th><th>b</th></tr>\n<tr><td>1 &lt; 2</td><td><strong>x</strong></td></tr>'
        "</table></div>\n<ul><li>one</li>\n<li>two</li></ul>\n<p>plain text</p>"
    )


def test_the_title_of_a_page_is_text() -> None:
    assert "<title>a &lt; b</title>" in html_page("a < b", ["<p>1</p>", "<p>2</p>"])


def test_an_element_escapes_text_and_attributes_but_not_html() -> None:
    inside = element("b", "1 < 2", Html("<i>3</i>"), None)
    assert inside == "<b>1 &lt; 2<i>3</i></b>"
    assert element("a", inside, href='"&', class_="x", stroke_width="2", title=None) == (
        '<a href="&quot;&amp;" class="x" stroke-width="2"><b>1 &lt; 2<i>3</i></b></a>'
    )
