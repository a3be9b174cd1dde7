"""Pages in Chromium, without a window: they render, sort, filter and open, and ask nobody for anything."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import captures
from tests.conftest import named as captures_named
from tests.page.making import hurting, page, write_talks

OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no Chromium with its driver: apt-get install chromium chromium-driver")
    webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium: pip install selenium")
    options = webdriver.ChromeOptions()
    for option in (*OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(option)
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver, env={**os.environ}))
    yield opened
    opened.quit()


def open_page(browser: Any, path: Path) -> None:
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(path.as_uri())


def requested(browser: Any) -> list[str]:
    """Return what the page has requested since it was opened."""
    return [event["request"]["url"] for name, event in events(browser) if name == "Network.requestWillBeSent"]


def events(browser: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return what the browser has done for the page since it was opened."""
    there = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    return [(event["method"], event["params"]) for event in there]


def resize(browser: Any, width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def shown_rows(browser: Any) -> list[list[str]]:
    script = """return Array.from(document.querySelectorAll("#table tbody tr")).filter(row => !row.hidden)
        .map(row => Array.from(row.cells).map(cell => cell.textContent.trim()))"""
    rows: list[list[str]] = browser.execute_script(script)
    return rows


def click(browser: Any, selector: str, number: int = 0) -> None:
    browser.execute_script("document.querySelectorAll(arguments[0])[arguments[1]].click()", selector, number)


def write_filter(browser: Any, text: str) -> None:
    script = """const field = document.getElementById("filter"); field.value = arguments[0];
        field.dispatchEvent(new Event("input"))"""
    browser.execute_script(script, text)


@pytest.mark.parametrize("path", captures(), ids=lambda path: path.stem)
def test_every_page(browser: Any, path: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.html"
    page(path, out)
    open_page(browser, out)
    rows = shown_rows(browser)
    columns = browser.execute_script("return document.querySelectorAll('#table thead button').length")
    for column in range(columns):
        for is_rising in (True, False):
            click(browser, "#table thead button", column)
            values = [row[column] for row in shown_rows(browser)]
            if column in (0, 4, 5, 6, 9, 10, 12, 13):
                assert values == sorted(
                    values, key=lambda text: float(text.replace(",", "") or 0), reverse=not is_rising
                )
            assert sorted(values) == sorted(row[column] for row in rows)
    if rows:
        write_filter(browser, rows[-1][7])
        assert {row[7] for row in shown_rows(browser)} == {rows[-1][7]}
        write_filter(browser, "nothing that is there")
        assert shown_rows(browser) == []
        write_filter(browser, "")
        assert len(shown_rows(browser)) == len(rows)
    if rows:
        click(browser, "[data-open]")
    closed = "return document.querySelectorAll('details.connection:not([open])').length"
    assert browser.execute_script(closed) == 0
    # Octets on demand, and whatever else opens.
    seen = "return Array.from(document.querySelectorAll('details.octets pre')).map(one => one.checkVisibility())"
    assert not any(browser.execute_script(seen))
    browser.execute_script("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert all(browser.execute_script(seen))
    sizes = "return Array.from(document.querySelectorAll('svg.picture')).map(one => one.getBoundingClientRect().height)"
    assert all(height > 50 for height in browser.execute_script(sizes))
    for width in (400, 800, 1400):
        resize(browser, width)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        # Verdicts are seen without scrolling sideways, wherever they stand.
        verdicts = (
            "return Array.from(document.querySelectorAll('.verdict, .verdicts li')).map(one => one.getClientRects())"
        )
        for boxes in browser.execute_script(verdicts):
            assert boxes
            assert all(box["left"] >= 0 and box["right"] <= width for box in boxes)
        # No row of FPDUs is tall because something wraps where nobody sees it.
        rows_of = "return Array.from(document.querySelectorAll('table.fpdus tbody > tr:not(.octets)'))"
        assert all(one < 50 for one in browser.execute_script(f"{rows_of}.map(r => r.getBoundingClientRect().height)"))
    assert browser.get_log("browser") == []
    assert requested(browser) == [out.as_uri()]


def test_a_link_opens_what_it_leads_to(browser: Any, tmp_path: Path) -> None:
    out = tmp_path / "x.html"
    page(write_talks(tmp_path / "x.pcap", [b"one", b"three"]), out)
    open_page(browser, out)
    is_open = "return document.getElementById('connection-1').open"
    assert not browser.execute_script(is_open)
    click(browser, ".verdicts a[href='#connection-1']")
    browser.implicitly_wait(1)
    assert browser.execute_async_script(f"setTimeout(arguments[0], 50, (() => {{ {is_open} }})())") or (
        browser.execute_script(is_open)
    )
    least = "const one = document.getElementById('least'); one.value = '0'; one.dispatchEvent(new Event('change'))"
    browser.execute_script(least)
    assert {row[2].split()[0] for row in shown_rows(browser)} <= {"error"}


@pytest.mark.parametrize("width", [400, 800, 1400])
def test_pictures_are_large_enough_to_be_read(browser: Any, width: int, tmp_path: Path) -> None:
    """Text of no picture is smaller than 8 points, on whatever screen; where there is no room a picture scrolls."""
    out = tmp_path / "x.html"
    page(captures_named("siw-terminate"), out)
    open_page(browser, out)
    resize(browser, width)
    browser.execute_script("document.querySelectorAll('details').forEach(one => { one.open = true })")
    sizes = (
        "return Array.from(document.querySelectorAll('svg.picture text')).map(one => { const m = one.getScreenCTM(); "
        "return parseFloat(getComputedStyle(one).fontSize) * Math.hypot(m.b, m.d); })"
    )
    found = browser.execute_script(sizes)
    assert len(found) > 20 and min(found) >= 8 * 96 / 72 - 0.01


def test_how_connections_ended_and_what_was_lost_is_seen_without_scrolling(browser: Any, tmp_path: Path) -> None:
    out = tmp_path / "x.html"
    page(captures_named("siw-client-killed"), out)
    open_page(browser, out)
    resize(browser, 800)
    places = """return Array.from(document.querySelectorAll("#table thead th"))
        .map(one => [one.textContent.trim(), one.getBoundingClientRect().right])"""
    ends = dict(browser.execute_script(places))
    first = ("Ended", "Not acknowledged, octets", "Gaps in the capture, octets", "Sent again")
    assert max(ends[name] for name in first) < 784  # what the page has beside its edges


def test_a_click_enlarges_a_picture(browser: Any, tmp_path: Path) -> None:
    out = tmp_path / "x.html"
    page(write_talks(tmp_path / "x.pcap", [b"one", b"three"]), out)
    open_page(browser, out)
    resize(browser, 800)
    sizes = "return Array.from(document.querySelectorAll('figure svg')).map(one => one.getBoundingClientRect().width)"
    before = browser.execute_script(sizes)
    assert len(before) > 3
    assert max(before) <= 1056  # 8 points are 8 points
    large = "return Array.from(document.querySelectorAll('figure')).map(one => one.classList.contains('large'))"
    browser.execute_script("document.querySelectorAll('figure svg')[1].dispatchEvent(new MouseEvent('click'))")
    assert browser.execute_script(large)[:2] == [False, True]
    assert browser.execute_script(sizes)[1] > 1.3 * before[1]
    click(browser, "button.enlarge", 2)
    assert browser.execute_script(large)[:3] == [False, False, True]
    browser.execute_script("document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))")
    assert not any(browser.execute_script(large))
    assert browser.execute_script(sizes) == before


@pytest.mark.parametrize("is_dark", [False, True])
def test_pictures_can_be_read_light_and_dark(browser: Any, is_dark: bool, tmp_path: Path) -> None:
    """No text of a picture has nearly the colour of the page."""
    out = tmp_path / "x.html"
    page(captures_named("siw-crc-rping"), out)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    try:
        open_page(browser, out)
        texts = (
            "return Array.from(document.querySelectorAll('svg.picture text')).map(one => getComputedStyle(one).fill)"
        )
        back = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        colours = {*browser.execute_script(texts)}
        assert colours
        for colour in colours:
            # Text inside of a dark bar has the colour of the page.
            assert colour == back or abs(luminance(colour) - luminance(back)) > 0.15, colour
        # A picture has the page as its background: what is as light as that, or lighter, has its very colour.
        fills = texts.replace(" text'", " path[fill]'")
        for colour in {*browser.execute_script(fills)} - {"none"}:
            assert colour == back or (luminance(colour) > luminance(back)) is is_dark or "url" in colour, colour
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def luminance(colour: str) -> float:
    red, green, blue = (int(part) / 255 for part in re.findall(r"\d+", colour)[:3])
    return float(0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2)


def test_the_page_of_a_probe(browser: Any, tmp_path: Path) -> None:
    from scapy_mpa.page.probed import page_of_probe
    from scapy_mpa.probe.choice import chosen
    from tests.probe.peers import our_responder, run_of

    with our_responder("reply-reserved-bit-0x08") as target:
        results = run_of(target, chosen(["valid-m0-c0", "crc-zero", "marker-at-4"]))
    out = tmp_path / "probe.html"
    out.write_text(page_of_probe(results, "127.0.0.1 <b>", {}), encoding="utf-8")
    open_page(browser, out)
    assert len(shown_rows(browser)) == 3
    least = "const one = document.getElementById('least'); one.value = '0'; one.dispatchEvent(new Event('change'))"
    browser.execute_script(least)
    assert [row[0] for row in shown_rows(browser)] == ["fail"]
    assert browser.title == "MPA probe: 127.0.0.1 <b>"
    assert browser.get_log("browser") == []
    assert requested(browser) == [out.as_uri()]


def test_what_others_wrote_does_nothing(browser: Any, tmp_path: Path) -> None:
    out = tmp_path / "x.html"
    path = hurting(tmp_path)
    page(path, out)
    open_page(browser, out)
    browser.execute_script("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert browser.execute_script("return typeof bad") == "undefined"
    assert browser.execute_script("return document.getElementById('bad')") is None
    assert str(path) in browser.find_element("css selector", ".captures").text
    assert str(path) in browser.title
    assert "<script>bad=1</s" in browser.find_element("id", "drawn").text
    assert browser.get_log("browser") == []
    assert requested(browser) == [out.as_uri()]


def test_the_policy_forbids_the_rest(browser: Any, tmp_path: Path) -> None:
    """Should something slip through: no script, no style, no picture from anywhere."""
    out = tmp_path / "x.html"
    page(write_talks(tmp_path / "x.pcap", [b"one"]), out)
    open_page(browser, out)
    browser.execute_script(
        """const script = document.createElement("script"); script.textContent = "window.bad = 1";
        document.body.append(script);
        const style = document.createElement("style"); style.textContent = "body { color: rgb(1, 2, 3) }";
        document.body.append(style);
        const image = document.createElement("img"); image.src = "http://192.0.2.1/x.png";
        document.body.append(image);"""
    )
    assert browser.execute_script("return typeof bad") == "undefined"
    assert browser.execute_script("return getComputedStyle(document.body).color") != "rgb(1, 2, 3)"
    # The browser tells of the picture, and that it did not ask for it.
    blocked = [event.get("blockedReason") for name, event in events(browser) if name == "Network.loadingFailed"]
    assert blocked == ["csp"]
    refused = [entry["message"] for entry in browser.get_log("browser")]
    assert len(refused) == 3
    assert all("Content Security Policy" in message for message in refused)
