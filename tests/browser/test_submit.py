"""Submission in a browser: validation as the user types, the preview, and the creation."""

import json
import re

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.dashboard import DashboardTab
from tests.browser.samples import framework
from tests.local.server import FRAMEWORKS, Server

TFJOB = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata:
  name: mnist
spec:
  tfReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - {name: tensorflow, image: train, command: [sleep, "1"]}
"""


def fill(dashboard: DashboardTab, text: str) -> None:
    dashboard.open("submit")
    dashboard.heading("Submit")
    dashboard.page.get_by_label("Manifest").get_by_role("textbox", name="Manifest").fill(text)


def test_errors_are_shown_with_line_and_column_while_typing(dashboard: DashboardTab, server: Server) -> None:
    fill(dashboard, TFJOB.replace("replicas: 2", "replicas: two"))

    page = dashboard.page
    expect(page.get_by_role("status").filter(has_text="1 error")).to_be_visible()
    expect(dashboard.button("Submit")).to_be_disabled()
    place = page.get_by_role("button", name="Line 8, column")
    place.click()
    selected = page.evaluate("getSelection().toString()")
    assert selected in ("two", "replicas: two")


def test_a_job_is_previewed_and_submitted(dashboard: DashboardTab, server: Server) -> None:
    fill(dashboard, TFJOB)

    page = dashboard.page
    expect(page.get_by_text("1 object, valid")).to_be_visible()
    expect(page.get_by_text("mnist-worker-0 … mnist-worker-1")).to_be_visible()
    expect(page.locator(".steps")).to_contain_text("Completed")
    assert server.get(FRAMEWORKS)["items"] == []
    dashboard.button("Submit").click()
    dashboard.heading("mnist")
    assert server.get("/apis/kubeflow.org/v1/namespaces/default/tfjobs/mnist")["metadata"]["name"] == "mnist"


def test_a_late_permission_does_not_enable_the_submission_of_a_changed_text(
    dashboard: DashboardTab,
) -> None:
    page = dashboard.page
    with dashboard.held(re.compile("selfsubjectaccessreviews")) as permission:
        fill(dashboard, TFJOB)
        expect(page.get_by_text("1 object, valid")).to_be_visible()
        permission.wait()
        with dashboard.held(re.compile("/previews")) as preview:
            editor = page.get_by_role("textbox", name="Manifest")
            editor.fill(TFJOB.replace("replicas: 2", "replicas: two"))
            preview.wait()
            with page.expect_response(re.compile("selfsubjectaccessreviews")):
                permission.release()
            expect(dashboard.button("Submit")).to_be_disabled()
            preview.release()

    expect(page.get_by_role("status").filter(has_text="1 error")).to_be_visible()
    expect(dashboard.button("Submit")).to_be_disabled()


def test_the_example_has_neither_errors_nor_warnings(dashboard: DashboardTab) -> None:
    dashboard.open("submit")

    dashboard.button("Example").click()

    expect(dashboard.page.get_by_text("1 object, valid")).to_be_visible()
    expect(dashboard.page.locator(".warning-text")).to_have_count(0)


def test_several_documents_are_submitted_in_order(dashboard: DashboardTab, server: Server) -> None:
    text = "---\n".join(json.dumps(framework(name, "true")) + "\n" for name in ("first", "second"))
    fill(dashboard, text)
    expect(dashboard.page.get_by_text("2 objects, valid")).to_be_visible()

    dashboard.button("Submit").click()

    expect(dashboard.row("first")).to_be_visible()
    expect(dashboard.row("second")).to_be_visible()


def test_a_rejected_submission_keeps_the_text(dashboard: DashboardTab, server: Server) -> None:
    server.post(FRAMEWORKS, framework("taken", "true"))
    fill(dashboard, json.dumps(framework("taken", "true")))

    dashboard.button("Submit").click()

    expect(dashboard.page.get_by_role("alert")).to_contain_text("already exists")
    expect(dashboard.page.get_by_role("textbox", name="Manifest")).to_have_value(
        json.dumps(framework("taken", "true"))
    )


def test_a_hostile_manifest_is_shown_as_text(dashboard: DashboardTab, server: Server) -> None:
    markup = "<img src=x onerror=alert(1)>"
    fill(
        dashboard,
        TFJOB.replace("name: mnist", f"name: '{markup}'").replace("kind: TFJob", "kind: '<b>x</b>'"),
    )

    expect(dashboard.page.locator(".preview-document h3")).to_contain_text(markup)
    assert dashboard.page.locator(".preview img, .preview b").count() == 0


def test_a_file_can_be_dropped(dashboard: DashboardTab, server: Server) -> None:
    dashboard.open("submit")
    dashboard.heading("Submit")
    dashboard.page.evaluate(
        """(text) => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([text], "job.yaml"));
            const drop = new DragEvent("drop", { dataTransfer: transfer, bubbles: true });
            document.querySelector(".editor").dispatchEvent(drop);
        }""",
        TFJOB,
    )

    expect(dashboard.page.get_by_text("1 object, valid")).to_be_visible()


def test_it_works_with_the_keyboard(dashboard: DashboardTab, server: Server) -> None:
    fill(dashboard, json.dumps(framework("typed", "true")))
    expect(dashboard.page.get_by_text("1 object, valid")).to_be_visible()
    expect(dashboard.button("Submit")).to_be_enabled()

    dashboard.page.keyboard.press("Control+Enter")

    dashboard.heading("typed")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize(
    "text", [TFJOB, TFJOB.replace("replicas: 2", "replicas: two"), ""], ids=["valid", "invalid", "empty"]
)
def test_the_page_is_accessible_and_fits(
    chromium: Browser, server: Server, width: int, dark: bool, text: str
) -> None:
    with DashboardTab(chromium, server.url, width=width, dark=dark) as dashboard:
        fill(dashboard, text)
        expect(dashboard.page.locator(".preview > *").first).to_be_visible()

        assert dashboard.violations() == []
        assert dashboard.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        dashboard.check()
