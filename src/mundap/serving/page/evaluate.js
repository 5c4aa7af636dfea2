// Two rankings on a file of questions: figures, significance, and what changed.

import { stream } from "./api.js";
import { announce, el } from "./dom.js";
import { comparison } from "./comparison.js";
import { modeName, notice, progress, trouble } from "./parts.js";
import { t } from "./strings.js";

const QUESTIONS = 2000; // the server's limits, so that a file that is too large is not sent at all
const QUESTIONS_MB = 4;
const RUN_MB = 12;

export class EvaluateView {
  constructor(page) {
    this.page = page;
    this.title = t("evaluate_title");
    this.outcome = el("div", { class: "outcome" });
    this.form = this.makeForm();
    this.shown = el(
      "div",
      { class: "evaluate-view" },
      el("h1", {}, t("evaluate_title")),
      el("p", { class: "lead" }, t("evaluate_lead")),
      this.form,
      this.outcome,
    );
    if (page.compared) this.outcome.replaceChildren(comparison(page.compared, page.index.name));
  }

  show() {}

  makeForm() {
    const { modes } = this.page.index;
    const option = (chosen) =>
      modes.map((one) => el("option", { value: one, selected: one === chosen }, modeName(one)));
    const kind = (value, checked) =>
      el(
        "label",
        { class: "choice" },
        el("input", { type: "radio", name: "kind", value, checked, onchange: () => this.choose(value) }),
        t(`compare_${value}`),
      );
    const file = (name, label, help) =>
      el(
        "div",
        { class: "field" },
        el("label", { for: name }, label),
        el("input", { id: name, name, type: "file", "aria-describedby": `${name}-help` }),
        el("small", { id: `${name}-help` }, help),
      );
    const select = (name, chosen) =>
      el(
        "div",
        { class: "field" },
        el("label", { for: name }, t(name)),
        el("select", { id: name, name }, ...option(chosen)),
      );
    const runs = modes.length < 2;
    this.modes = el("div", { class: "pair", hidden: runs }, select("first", "bm25"), select("second", "hybrid"));
    const help = t("run_help", { n: RUN_MB });
    this.runs = el(
      "div",
      { class: "pair", hidden: !runs },
      file("first_file", t("first_file"), help),
      file("second_file", t("second_file"), help),
    );
    this.warning = el("p", { class: "bad-text", role: "alert" });
    this.button = el("button", { class: "first", id: "compare" }, t("run"));
    return el(
      "form",
      { class: "card evaluate-form", onsubmit: (event) => this.submit(event) },
      el("fieldset", {}, el("legend", {}, t("compare_what")), !runs && kind("modes", true), kind("runs", runs)),
      this.modes,
      this.runs,
      file("questions", t("questions_file"), t("questions_help", { n: QUESTIONS, mb: QUESTIONS_MB })),
      this.warning,
      this.button,
    );
  }

  choose(kind) {
    this.modes.hidden = kind !== "modes";
    this.runs.hidden = kind !== "runs";
  }

  /** The form as the server takes it, and what the two are called; or why not. */
  filled() {
    const { elements } = this.form;
    const form = new FormData();
    const [questions] = elements.questions.files;
    if (!questions) return { missing: t("needs_file") };
    if (questions.size > QUESTIONS_MB * 2 ** 20) return { missing: t("trouble_413") };
    form.append("questions", questions);
    if (elements.kind.value === "modes") {
      const modes = [elements.first.value, elements.second.value];
      if (modes[0] === modes[1]) return { missing: t("needs_two") };
      for (const mode of modes) form.append("modes", mode);
      return { form, names: modes.map((one) => t(`mode_${one}`)) };
    }
    const runs = [elements.first_file.files[0], elements.second_file.files[0]];
    if (!runs[0] || !runs[1]) return { missing: t("needs_runs") };
    if (runs.some((run) => run.size > RUN_MB * 2 ** 20)) return { missing: t("trouble_413") };
    for (const run of runs) form.append("runs", run);
    const names = runs.map((run) => run.name);
    return { form, names: names[0] === names[1] ? [t("first"), t("second")] : names };
  }

  async submit(event) {
    event.preventDefault();
    const { form, names, missing } = this.filled();
    this.warning.textContent = missing ?? "";
    if (missing) return;
    const controller = new AbortController();
    const bar = progress(t("starting"));
    const stop = el("button", { type: "button", class: "second", onclick: () => controller.abort() }, t("stop"));
    this.outcome.replaceChildren(el("div", { class: "card working" }, bar.shown, stop));
    this.button.disabled = true;
    announce(t("starting"));
    try {
      let result = null;
      await stream(
        `v1/compare?index=${encodeURIComponent(this.page.index.name)}`,
        form,
        (line) => {
          if (line.result) result = line.result;
          else if (line.stage === "significance") bar.set(t("tests"), 0, 0);
          else
            bar.set(
              t("running", { stage: t(`mode_${line.stage}`), done: line.done, total: line.total }),
              line.done,
              line.total,
            );
        },
        { signal: controller.signal },
      );
      this.page.compared = { ...result, names };
      this.outcome.replaceChildren(comparison(this.page.compared, this.page.index.name));
      this.outcome.querySelector("h2").scrollIntoView({ block: "nearest" });
      announce(this.outcome.querySelector(".verdict").textContent);
    } catch (error) {
      const stopped = error.name === "AbortError";
      this.outcome.replaceChildren(
        stopped ? notice("close", t("stopped"), "") : trouble(error, () => this.form.requestSubmit()),
      );
    } finally {
      this.button.disabled = false;
    }
  }

  key() {}

  escape() {}
}
