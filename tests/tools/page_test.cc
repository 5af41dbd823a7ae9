// The page of a plan, opened in a browser: it says what the plan says, and can be
// searched, zoomed and pinned. What scripts do stands as elements and attributes.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/tools/browser.h"
#include "tests/tools/run_stowage.h"

namespace stowage::testing {
namespace {

using Json = nlohmann::json;

// A step that saves, recomputes, and has scratch; its report as JSON.
struct Planned {
  std::string path;
  std::string html;
  Json report;
};

Planned PlanOf(const std::string& name, const std::string& budget) {
  Planned planned{
      .path = TempPath(StrCat(name, ".plan")), .html = {}, .report = {}};
  const std::string html = TempPath(StrCat(name, ".html"));
  const Outcome outcome = RunStowage(
      {"plan", "--model", "gpt-nano", "--threads", "1", "--recompute", "auto",
       "--budget", budget, "-o", planned.path, "--html", html, "--json"});
  REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
  planned.html = ReadAll(html);
  const Outcome report =
      RunStowage({"report", planned.path, "--format", "json"});
  planned.report = Json::parse(report.out);
  return planned;
}

const Planned& Nano() {
  static const Planned kNano = PlanOf("nano", "16MiB");
  return kNano;
}

// Of the timeline, the entry of a buffer.
Json Buffer(const Json& report, const std::string& name) {
  for (const Json& buffer : report["timeline"]) {
    if (buffer["name"] == name) return buffer;
  }
  FAIL("there is no buffer ", name);
  return {};
}

// What a user does, as events.
constexpr std::string_view kHands = R"(
const canvas = document.querySelector('figure canvas');
const figure = document.querySelector('figure');
const spot = (target, x, y) => {
  const {left, top} = target.getBoundingClientRect();
  return {bubbles: true, cancelable: true, clientX: left + x, clientY: top + y,
          button: 0, pointerId: 1};
};
const press = (target, x, y) => {
  target.dispatchEvent(new PointerEvent('pointerdown', spot(target, x, y)));
  target.dispatchEvent(new PointerEvent('pointerup', spot(target, x, y)));
};
const key = (name) => document.body.dispatchEvent(
    new KeyboardEvent('keydown', {key: name, bubbles: true}));
const type = (text) => {
  const field = document.getElementById('search');
  field.value = text;
  field.dispatchEvent(new Event('input'));
};
const middle = (name) => {
  const box = maps[0].box(programs[0].byName.get(name));
  return [box.x + box.width / 2, box.y + box.height / 2];
};
const text = (selector) => document.querySelector(selector)?.textContent;
const range = () => {
  drawNow();
  return ['timeFrom', 'timeTo', 'addressFrom', 'addressTo'].map(
      (name) => Number(figure.dataset[name]));
};
)";

Json Ask(const std::string& html, std::string_view script,
         bool wants_dark = false) {
  Json answers = AskPage(html, StrCat(kHands, script), wants_dark);
  CHECK_MESSAGE(answers["errors"].empty(), answers["errors"].dump());
  return answers;
}

TEST_CASE("whether the page can be tested here") {
  if (!HasBrowser()) {
    MESSAGE(
        "SKIPPED: there is no chromium; tools/setup.sh --checks installs it");
  }
}

TEST_CASE("the page says the plan's numbers" * doctest::skip(!HasBrowser())) {
  const Json& report = Nano().report;
  const Json answers = Ask(Nano().html, R"(
tell('ready', document.body.dataset.ready);
tell('title', document.title);
for (const tile of document.querySelectorAll('.tile')) {
  tell(tile.dataset.figure, tile.title);
}
// Rectangles on the screen, in bytes times nodes.
let area = 0;
for (const buffer of programs[0].buffers) {
  const box = maps[0].box(buffer);
  area += box.width * box.height;
}
tell('area', area * programs[0].end / maps[0].plotWidth * arenaTop / mapHeight);
// What is stacked by kind, against what the report counted.
let differences = 0;
let highest = 0;
programs[0].live.forEach((bytes, time) => {
  let sum = 0;
  for (const kind of page.kinds) sum += programs[0].liveByKind[kind][time];
  if (sum !== bytes) ++differences;
  highest = Math.max(highest, sum);
});
tell('differences', differences);
tell('highest', highest);
tell('peak', programs[0].figures.peak_time);
tell('buffers', programs[0].buffers.length);
)");
  CHECK(answers["ready"] == "true");
  CHECK(answers["title"] == "Stowage: gpt-nano.step");
  const auto exact = [&](const char* name) {
    std::string digits;
    for (const char c : answers[name].get<std::string>()) {
      if (c >= '0' && c <= '9') digits += c;
    }
    return std::stoll(digits);
  };
  for (const char* name : {"arena_bytes", "lower_bound_bytes", "no_reuse_bytes",
                           "saved_bytes", "caching_allocator_bytes"}) {
    INFO(name);
    CHECK(exact(name) == report[name].get<int64_t>());
  }
  CHECK(exact("budget_bytes") == 16777216);

  const auto nodes = report["nodes"].get<int64_t>();
  std::vector<int64_t> live(static_cast<size_t>(nodes), 0);
  double area = 0;
  for (const Json& buffer : report["timeline"]) {
    const auto bytes = buffer["bytes"].get<int64_t>();
    const auto lower = buffer["lower"].get<int64_t>();
    const int64_t upper = std::min(buffer["upper"].get<int64_t>(), nodes);
    area += static_cast<double>(bytes) * static_cast<double>(upper - lower);
    for (int64_t t = lower; t < upper; ++t)
      live[static_cast<size_t>(t)] += bytes;
  }
  CHECK(answers["area"].get<double>() == doctest::Approx(area).epsilon(1e-9));
  CHECK(answers["differences"] == 0);
  CHECK(answers["highest"] == *std::ranges::max_element(live));
  CHECK(answers["peak"] == report["peak_time"]);
  CHECK(answers["buffers"] == report["buffers"]);
}

TEST_CASE("a search finds by name, op and source line" *
          doctest::skip(!HasBrowser())) {
  const Json answers = Ask(Nano().html, R"(
type('H.2.MLP');
tell('hits', Number(document.getElementById('hits').dataset.count));
tell('shown', document.querySelectorAll('#buffers tbody tr').length);
tell('names', look.hits.map((buffer) => buffer.name));
document.getElementById('search').dispatchEvent(
    new KeyboardEvent('keydown', {key: 'Enter'}));
tell('pinned', document.getElementById('pinned').dataset.buffer);
tell('zoomed', range());
type('layer_norm');
tell('ops', look.hits.map((buffer) => buffer.op));
type('nn/gpt.cc:');
tell('lines', look.hits.length);
type('nowhere to be found');
tell('none', document.getElementById('hits').dataset.count);
type('');
tell('all', document.getElementById('hits').textContent);
)");
  int expected = 0;
  for (const Json& buffer : Nano().report["timeline"]) {
    expected +=
        buffer["name"].get<std::string>().find("h.2.mlp") != std::string::npos;
  }
  // In-place, a buffer also goes by the names of later values.
  CHECK(answers["hits"].get<int>() >= expected);
  CHECK(expected > 10);
  CHECK(answers["names"].size() == answers["hits"]);
  CHECK(answers["shown"] == std::min(50, answers["hits"].get<int>()));
  CHECK(answers["pinned"] == answers["names"][0]);
  const Json pinned = Buffer(Nano().report, answers["names"][0]);
  CHECK(answers["zoomed"][0] <= pinned["lower"]);
  CHECK(answers["ops"].size() >= 4);
  CHECK(answers["lines"].get<int>() > 200);
  CHECK(answers["none"] == "0");
  CHECK(answers["all"] == "");
}

TEST_CASE("the map zooms about the pointer and pans" *
          doctest::skip(!HasBrowser())) {
  const Json answers = Ask(Nano().html, R"(
const x = 500, y = 200;
tell('whole', range());
tell('before', [maps[0].timeAt(x), maps[0].addressAt(y)]);
const turn = (delta, more) => canvas.dispatchEvent(new WheelEvent('wheel',
    {...spot(canvas, x, y), deltaY: delta, ...more}));
turn(-60);
turn(-60);
tell('near', range());
tell('after', [maps[0].timeAt(x), maps[0].addressAt(y)]);
const grab = (kind, at) => canvas.dispatchEvent(
    new PointerEvent(kind, spot(canvas, ...at)));
grab('pointerdown', [x, y]);
grab('pointermove', [x - 30, y]);
grab('pointerup', [x - 30, y]);
tell('panned', range());
tell('dragged', document.getElementById('pinned').dataset.buffer ?? 'nothing');
document.getElementById('zoom-all').click();
tell('all', range());
turn(-60, {shiftKey: true});
tell('times', range());
document.getElementById('zoom-all').click();
turn(-60, {altKey: true});
tell('addresses', range());
key('0');
tell('zero', range());
key('+');
tell('plus', range());
key('-');
tell('minus', range());
turn(600);
turn(600);
tell('far', range());
)");
  const Json& report = Nano().report;
  const Json whole = {0, report["nodes"], 0, report["arena_bytes"]};
  CHECK(answers["whole"] == whole);
  CHECK(answers["near"][0] > 0);
  CHECK(answers["near"][1] < whole[1]);
  CHECK(answers["near"][2] > 0);
  CHECK(answers["near"][3] < whole[3]);
  for (int i = 0; i < 2; ++i) {  // what is under the pointer stays there
    CHECK(answers["after"][i].get<double>() ==
          doctest::Approx(answers["before"][i].get<double>()));
  }
  CHECK(answers["panned"][0] > answers["near"][0]);
  CHECK(answers["panned"][2] == answers["near"][2]);
  CHECK(answers["dragged"] == "nothing");
  for (const char* name : {"all", "zero", "far"}) {
    INFO(name);
    CHECK(answers[name] == whole);
  }
  CHECK(answers["times"][1] < whole[1]);
  CHECK(answers["times"][3] == whole[3]);
  CHECK(answers["addresses"][1] == whole[1]);
  CHECK(answers["addresses"][3] < whole[3]);
  CHECK(answers["plus"][1] < whole[1]);
  CHECK(answers["minus"][0] == 0);
}

TEST_CASE("a click pins a buffer, and tells what it is" *
          doctest::skip(!HasBrowser())) {
  const Json answers = Ask(Nano().html, R"(
press(canvas, ...middle('h.3.mlp.c_fc'));
for (const field of ['name', 'kind', 'bytes', 'lifetime', 'address', 'op', 'source']) {
  tell(field, text(`#pinned [data-field="${field}"]`));
}
tell('readers', [...document.querySelectorAll('[data-field="readers"] li')].map(
    (item) => item.textContent));
tell('row', text('tr.pinned td'));
tell('hash', location.hash);
tell('in place', [...document.querySelectorAll('[data-field="values"] li')].map(
    (item) => item.textContent));
key('Escape');
tell('let go', document.getElementById('pinned').dataset.buffer ?? 'nothing');
document.querySelector('#buffers tbody tr').click();
tell('by row', document.getElementById('pinned').dataset.buffer);
tell('first row', document.querySelector('#buffers tbody tr').dataset.buffer);
document.querySelectorAll('#buffers tbody tr')[1].dispatchEvent(
    new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}));
tell('by key', document.getElementById('pinned').dataset.buffer);
tell('second row', document.querySelectorAll('#buffers tbody tr')[1].dataset.buffer);
)");
  const Json buffer = Buffer(Nano().report, "h.3.mlp.c_fc");
  CHECK(answers["name"] == "h.3.mlp.c_fc");
  CHECK(answers["kind"] == "saved for backward");
  CHECK(answers["bytes"] == "1.0 MiB 1,048,576 bytes");
  CHECK(buffer["bytes"] == 1048576);
  CHECK(answers["lifetime"].get<std::string>().starts_with(
      StrCat("[", buffer["lower"].get<int>(), ", ", buffer["upper"].get<int>(),
             ") ")));
  CHECK(answers["op"] == "fused_matmul");  // with the bias
  CHECK(answers["source"].get<std::string>().starts_with("nn/gpt.cc:"));
  REQUIRE(answers["readers"].size() >= 2);
  CHECK(answers["readers"][0].get<std::string>().find("forward") !=
        std::string::npos);
  CHECK(answers["readers"].back().get<std::string>().find("backward of ") == 0);
  // gelu's gradient is written over what it reads.
  REQUIRE(answers["in place"].size() >= 2);
  CHECK(answers["in place"][1].get<std::string>().find("grad:h.3.mlp.c_fc ") ==
        0);
  CHECK(answers["row"] == "h.3.mlp.c_fc");
  CHECK(answers["hash"] == "#pin=h.3.mlp.c_fc");
  CHECK(answers["let go"] == "nothing");
  CHECK(answers["by row"] == answers["first row"]);
  CHECK(answers["by key"] == answers["second row"]);
  CHECK(answers["first row"] != answers["second row"]);
}

TEST_CASE(
    "buffers are painted in the colours of what they are for, and hidden" *
    doctest::skip(!HasBrowser())) {
  const Json answers = Ask(Nano().html, R"(
const painted = (buffer) => {
  const box = maps[0].box(buffer);
  const ratio = devicePixelRatio;
  // The right lower corner: no label is there.
  const pixel = canvas.getContext('2d').getImageData(
      Math.round((box.x + box.width - 3) * ratio),
      Math.round((box.y + box.height - 3) * ratio), 1, 1).data;
  return `rgb(${pixel[0]}, ${pixel[1]}, ${pixel[2]})`;
};
drawNow();
let wrong = [];
const seen = new Set();
for (const buffer of programs[0].buffers) {
  const box = maps[0].box(buffer);
  if (box.width < 10 || box.height < 6) continue;
  const peak = maps[0].x(programs[0].figures.peak_time + 0.5);
  if (Math.abs(box.x + box.width - 3 - peak) < 3) continue;
  seen.add(buffer.kind);
  if (painted(buffer) !== colours[buffer.kind]) wrong.push(buffer.name);
}
tell('wrong', wrong);
tell('seen', [...seen]);
tell('legend', [...document.querySelectorAll('#legend button')].map(
    (button) => button.dataset.kind));
const saved = programs[0].byName.get('h.3.mlp.c_fc');
document.querySelector('#legend [data-kind="saved"]').click();
drawNow();
tell('hidden', painted(saved) === colours.empty);
press(canvas, ...middle(saved.name));
tell('pinned', document.getElementById('pinned').dataset.buffer ?? 'nothing');
document.querySelector('#legend [data-kind="saved"]').click();
drawNow();
tell('back', painted(saved) === colours.saved);
type('wte');
drawNow();
tell('dimmed', painted(saved) !== colours.saved);
)");
  CHECK(answers["wrong"] == Json::array());
  for (const char* kind :
       {"weights", "state", "saved", "gradients", "recomputed"}) {
    INFO(kind);
    CHECK(std::ranges::count(answers["seen"], kind) == 1);
  }
  CHECK(answers["legend"] ==
        Json({"weights", "state", "inputs", "saved", "gradients", "recomputed",
              "temporary", "scratch"}));
  CHECK(answers["hidden"] == true);
  CHECK(answers["pinned"] == "nothing");
  CHECK(answers["back"] == true);
  CHECK(answers["dimmed"] == true);
}

TEST_CASE("light and dark: as the system says, and by the switch" *
          doctest::skip(!HasBrowser())) {
  constexpr std::string_view kScript = R"(
const paper = () => getComputedStyle(document.body).backgroundColor;
const button = document.getElementById('theme');
tell('auto', paper());
button.click();
tell('light', paper());
button.click();
tell('dark', paper());
drawNow();
tell('ink', colours.ink);
button.click();
tell('again', paper());
)";
  const Json light = Ask(Nano().html, kScript);
  const Json dark = Ask(Nano().html, kScript, /*wants_dark=*/true);
  CHECK(light["light"] == dark["light"]);
  CHECK(light["dark"] == dark["dark"]);
  CHECK(light["light"] != light["dark"]);
  CHECK(light["auto"] == light["light"]);
  CHECK(dark["auto"] == dark["dark"]);
  CHECK(dark["again"] == dark["auto"]);
  CHECK(light["ink"] == dark["ink"]);
}

TEST_CASE("two plans are compared" * doctest::skip(!HasBrowser())) {
  const Planned wide = PlanOf("wide", "24MiB");
  const Outcome both =
      RunStowage({"report", Nano().path, wide.path, "--format", "html"});
  REQUIRE(both.exit_code == 0);
  const Json answers = Ask(both.out, R"(
tell('figures', document.querySelectorAll('figure').length);
tell('bytes', [...document.querySelectorAll('[data-figure="arena_bytes"]')].map(
    (cell) => Number(cell.dataset.bytes)));
tell('difference', text('[data-difference="arena_bytes"]'));
tell('shown', !document.getElementById('comparison').hidden);
tell('summary', text('#comparison-summary'));
tell('rows', document.querySelectorAll('#differences tbody tr').length);
press(canvas, ...middle('h.3.mlp.c_fc'));
tell('twin', text('[data-field="twin"]'));
)");
  CHECK(answers["figures"] == 2);
  CHECK(answers["bytes"] ==
        Json({Nano().report["arena_bytes"], wide.report["arena_bytes"]}));
  CHECK(answers["difference"].get<std::string>().starts_with("+"));
  CHECK(answers["shown"] == true);
  int only = 0;
  for (const Json& buffer : Nano().report["timeline"]) {
    only += std::ranges::none_of(
        wide.report["timeline"],
        [&](const Json& other) { return other["name"] == buffer["name"]; });
  }
  CHECK(answers["summary"].get<std::string>().starts_with(
      StrCat("Only in nano.plan: ", only, " buffer")));
  CHECK(answers["rows"].get<int>() > 0);
  CHECK(answers["twin"].get<std::string>().starts_with("1.0 MiB, lives "));
}

TEST_CASE("a run shows its programs side by side, and its losses" *
          doctest::skip(!HasBrowser())) {
  const std::string data = WriteTemp("line.txt", SomeText());
  const std::string path = TempPath("run.html");
  const Outcome run =
      RunStowage({"train", "--model", "gpt-nano", "--data", data, "--steps",
                  "3", "--batch", "2", "--seq", "16", "--threads", "1",
                  "--html", path, "--json"});
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  const Json answers = Ask(ReadAll(path), R"(
tell('names', [...document.querySelectorAll('figure')].map(
    (one) => one.dataset.program));
tell('arenas', [...document.querySelectorAll('[data-figure="arena_bytes"]')].map(
    (cell) => Number(cell.dataset.bytes)));
tell('shown', !document.getElementById('run').hidden);
tell('summary', text('#run-summary'));
tell('steps', page.losses.map((point) => point.step));
tell('losses', page.losses.map((point) => point.loss));
const loss = document.getElementById('loss');
const pixels = loss.getContext('2d').getImageData(0, 0, loss.width, loss.height).data;
tell('drawn', pixels.some((byte) => byte !== 0));
pin(programs[0].byName.get('wte'));
tell('twins', [...document.querySelectorAll('[data-field="twin"]')].length);
const choice = document.getElementById('program');
choice.value = '1';
choice.dispatchEvent(new Event('change'));
tell('table', text('#shown'));
tell('evaluate', programs[1].buffers.length);
)");
  CHECK(answers["names"] == Json({"train", "evaluate", "generate", "prefill"}));
  std::vector<Json> lines;
  for (size_t at = 0; at < run.out.size();) {
    const size_t end = run.out.find('\n', at);
    lines.push_back(Json::parse(run.out.substr(at, end - at)));
    at = end + 1;
  }
  REQUIRE(lines.size() == 4);
  CHECK(*std::ranges::max_element(answers["arenas"]) ==
        lines.back()["arena_bytes"]);
  CHECK(answers["shown"] == true);
  CHECK(answers["steps"] == Json({1, 2, 3}));
  for (size_t i = 0; i < 3; ++i) {
    CHECK(answers["losses"][i].get<double>() ==
          doctest::Approx(lines[i]["loss"].get<double>()));
  }
  CHECK(answers["summary"].get<std::string>().starts_with("step 3: "));
  CHECK(answers["drawn"] == true);
  CHECK(answers["twins"] == 3);
  CHECK(answers["table"].get<std::string>().starts_with(
      StrCat(answers["evaluate"].get<int>(), " buffers")));
}

TEST_CASE("names that look like markup are text" *
          doctest::skip(!HasBrowser())) {
  const std::string graph = WriteTemp("evil.txt", R"(stowage-ir 1
graph "</title><script>throw 1</script>" {
  x: f32(64, 64) = input
  "</script><img src=x onerror=throw(1)>": f32(64, 64) = tanh(x)
  "<!--": f32(64, 64) = relu("</script><img src=x onerror=throw(1)>")
  output "<!--" = "<!--"
  output "kept" = "</script><img src=x onerror=throw(1)>"
}
)");
  const std::string path = TempPath("evil.html");
  const Outcome outcome =
      RunStowage({"plan", "--graph", graph, "--html", path});
  REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
  const Json answers = Ask(ReadAll(path), R"(
tell('title', document.title);
tell('images', document.querySelectorAll('img').length);
press(canvas, ...middle('<\/script><img src=x onerror=throw(1)>'));
tell('name', text('#pinned [data-field="name"]'));
tell('images then', document.querySelectorAll('img').length);
)");
  CHECK(answers["title"] == "Stowage: </title><script>throw 1</script>");
  CHECK(answers["name"] == "</script><img src=x onerror=throw(1)>");
  CHECK(answers["images"] == 0);
  CHECK(answers["images then"] == 0);
}

}  // namespace
}  // namespace stowage::testing
