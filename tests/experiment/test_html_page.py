"""HTML pages of reports."""

from rl_training.experiment.html_page import html_page, to_html


def test_markdown_becomes_html() -> None:
    text = "| a | b |\n|---|---|\n| 1 < 2 | **x** |\n\n- one\n- two\n\nplain\ntext"
    assert to_html(text) == (
        '<div class="tables"><table><tr><th>a</th><th>b</th></tr>\n<tr><td>1 &lt; 2</td><td><strong>x</strong></td></tr>'
        "</table></div>\n<ul><li>one</li>\n<li>two</li></ul>\n<p>plain text</p>"
    )


def test_the_title_of_a_page_is_text() -> None:
    assert "<title>a &lt; b</title>" in html_page("a < b", ["<p>1</p>", "<p>2</p>"])
