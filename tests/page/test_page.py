#!/usr/bin/python3
"""Clicks through the page at / in headless Chromium, against glint serving the nano model.

    /usr/bin/python3 tests/page/test_page.py --glint build/release/apps/glint/glint [--screenshots FOLDER]

Uses Debian's python3-selenium with chromium-driver; ends with status 77 where they are missing.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select, WebDriverWait
except ImportError:
    print("skipped: python3-selenium is not installed")
    sys.exit(77)

ROOT = Path(__file__).resolve().parent.parent.parent
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"]


class Server:
    def __init__(self, glint: str, *flags: str):
        self.process = subprocess.Popen(
            [glint, "serve", str(ROOT / "models/nano"), "--served-model-name", "nano", "--host", "127.0.0.1", "--port", "0",
             "--speculative-config.method", "mtp", "--speculative-config.num_speculative_tokens", "3", *flags],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            found = re.search(r"running on (http://\S+)", line)
            if found:
                self.url = found[1]
                return
        raise SystemExit("the server did not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate(timeout=60)


def browser(profile: str, width: int, height: int):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in [*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options)


class Page:
    def __init__(self, driver, url: str, shots: Path | None):
        self.driver, self.shots = driver, shots
        self.wait = WebDriverWait(driver, 60, poll_frequency=0.05)
        driver.get(url)

    def get(self, name):
        return self.driver.find_element(By.ID, name)

    def ready(self):
        self.wait.until(lambda _: self.get("model").get_attribute("value") == "nano")

    def ask(self, text: str):
        before = len(self.turns())
        self.get("text").send_keys(text, Keys.ENTER)
        self.wait.until(lambda _: len(self.turns()) == before + 2)

    def turns(self):
        return self.driver.find_elements(By.CSS_SELECTOR, "#turns > li")

    def done(self):
        self.wait.until(lambda _: self.get("send").is_displayed())
        return self.turns()[-1]

    def shot(self, name: str):
        if self.shots:
            self.shots.mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(str(self.shots / f"{name}.png"))

    def no_errors(self):
        lines = [entry for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE" and "401" not in entry["message"]]
        assert not lines, lines


def chat(page: Page):
    page.ready()
    Select(page.get("effort")).select_by_value("low")
    page.get("temperature").send_keys("0")
    page.ask("What is 345 + 278?")
    answer = page.done()
    assert "623" in answer.find_element(By.CLASS_NAME, "answer").text, answer.text
    thinking = answer.find_element(By.TAG_NAME, "details")
    assert thinking.is_displayed() and not thinking.get_attribute("open"), "reasoning must be there and folded"
    thinking.find_element(By.TAG_NAME, "summary").click()
    assert thinking.find_element(By.TAG_NAME, "div").text.strip(), "the unfolded reasoning is empty"
    figures = answer.find_element(By.CLASS_NAME, "figures").text
    assert re.search(r"\d+ tokens, [\d.]+ tokens/s", figures), figures
    page.ask("What is 7 + 5?")  # the history goes along
    assert "12" in page.done().text
    page.shot("chat")


def stop(page: Page):
    Select(page.get("effort")).select_by_value("")
    page.ask("Tell a story. " * 40)
    page.get("stop").click()
    answer = page.done()
    assert "error" not in answer.get_attribute("innerHTML"), answer.text
    page.get("new").click()
    assert not page.turns()


def markup(page: Page):
    """What a model writes never becomes HTML."""
    nodes = page.driver.execute_async_script("""
        const done = arguments[0];
        import("/page/markdown.js").then(({markdown}) => {
          const box = document.createElement("div");
          box.append(...markdown("# T\\n<img src=x onerror=alert(1)> **b** `c<d>`\\n\\n```js\\n<script>\\n```\\n\\n- a\\n- b\\n\\n|x|y|\\n|-|-|\\n|1|2|\\n\\n[l](https://example.org/a) [j](javascript:alert(1))"));
          done({images: box.querySelectorAll("img,script").length, strong: box.querySelectorAll("strong").length,
                code: box.querySelector("pre").textContent, items: box.querySelectorAll("li").length,
                cells: box.querySelectorAll("td,th").length, links: [...box.querySelectorAll("a")].map((a) => a.href)});
        });""")
    assert nodes == {"images": 0, "strong": 1, "code": "<script>", "items": 2, "cells": 4, "links": ["https://example.org/a"]}, nodes


def live(page: Page):
    page.get("live-toggle").click()
    page.get("text").send_keys("Count.", Keys.ENTER)
    page.wait.until(lambda _: page.get("running").text.isdigit())
    page.wait.until(lambda _: "tokens a step" in page.get("acceptance-length").text)
    page.wait.until(lambda _: page.driver.find_elements(By.CSS_SELECTOR, "#experts i"))
    page.wait.until(lambda _: "%" in page.get("cache-share").text)
    page.get("stop").click()
    page.done()
    page.shot("live")


def on_a_phone(page: Page):
    page.driver.set_window_size(390, 800)
    width = page.driver.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert width[0] <= width[1], f"the page is wider than the phone: {width}"
    assert page.get("send").is_displayed() and page.get("text").is_displayed()
    page.shot("phone")
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    ground = page.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(22, 24, 26)", ground
    page.shot("phone-dark")


def cached(url: str):
    """Without a change the page is not sent again."""
    with urllib.request.urlopen(url) as response:
        tag = response.headers["ETag"]
    try:
        urllib.request.urlopen(urllib.request.Request(url, headers={"If-None-Match": tag}))
    except urllib.error.HTTPError as error:
        assert error.code == 304, error.code
        return
    raise AssertionError("the page was sent again")


def with_a_key(glint: str, profile: str):
    with Server(glint, "--api-key", "secret") as server:
        driver = browser(profile, 900, 700)
        try:
            page = Page(driver, server.url, None)
            page.wait.until(lambda _: page.get("key").is_displayed())
            page.get("key").send_keys("secret", Keys.ENTER)
            page.ready()
            page.ask("What is 1 + 1?")
            assert "2" in page.done().text
        finally:
            driver.quit()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--glint", required=True)
    parser.add_argument("--screenshots", type=Path)
    options = parser.parse_args()
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        print("skipped: chromium and chromium-driver are not installed")
        return 77
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, Server(options.glint) as server:
        driver = browser(f"{folder}/a", 1200, 800)
        try:
            page = Page(driver, server.url, options.screenshots)
            for part in (chat, stop, markup, live, on_a_phone):
                part(page)
                page.no_errors()
                print(f"{part.__name__}: as it should be")
        finally:
            driver.quit()
        cached(server.url)
        with_a_key(options.glint, f"{folder}/b")
        print("with_a_key: as it should be")
    print(f"{time.monotonic() - begin:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
