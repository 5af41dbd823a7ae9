// That the checks of a device pass on one that works, and fail on one that does
// not: a fake device, to which single things are done.

#include "tests/gpu/device_suite.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "tests/gpu/check_rows.h"
#include "tests/gpu/faulty_device.h"
#include "tests/support/op_cases.h"

namespace stowage::testing {
namespace {

// Of the op table all but the cases of `op` and every tenth of the others, so that a test
// takes a tenth of its time.
std::set<std::string> MostCasesBut(std::string_view op) {
  std::set<std::string> names;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    int i = 0;
    for (const OpCase& each : GpuOpCases(dtype)) {
      if (i++ % 10 != 0 && !each.name.starts_with(op)) names.insert(each.name);
    }
  }
  return names;
}

std::vector<CheckRow> RunOn(const Faults& faults, std::set<std::string> only,
                            std::set<std::string> skipped_cases = {}) {
  SuiteOptions options = SuiteOptionsFor(SuiteSize::kSmall);
  options.only = std::move(only);
  options.ops.skip = std::move(skipped_cases);
  options.growth.count_heap = false;  // the fake's own
  auto rows = RunDeviceSuite(OpenFaulty(faults), options);
  REQUIRE_MESSAGE(rows.ok(), rows.error().message);
  return *std::move(rows);
}

// The names of the failed rows: "ops f32, ops bf16".
std::string Failed(const std::vector<CheckRow>& rows) {
  std::string names;
  for (const CheckRow& row : rows) {
    if (row.status != CheckStatus::kFailed) continue;
    names += StrCat(names.empty() ? "" : ", ", row.name);
  }
  return names;
}

// Of a device that works.
const std::vector<CheckRow>& AllRows() {
  static const std::vector<CheckRow> rows = RunOn({}, {});
  return rows;
}

TEST_CASE("a device that works passes every check") {
  const auto& rows = AllRows();
  MESSAGE(RowsToText(rows));
  CHECK(Failed(rows) == "");
  std::vector<std::string> names;
  for (const CheckRow& row : rows) names.push_back(row.name);
  CHECK(names == std::vector<std::string>{
                     "device", "ops f32", "ops bf16", "ops f16",
                     "bench mlp f32", "times mlp f32", "growth gpt-nano",
                     "models mlp", "models gpt-nano", "bits mlp f32",
                     "bits mlp bf16", "bits gpt-nano f32", "bits gpt-nano bf16",
                     "branches", "attention 1 x 130, 1 heads of 64"});
}

TEST_CASE("the rows say what they counted") {
  const auto data = [](std::string_view name) {
    const auto row = std::ranges::find(AllRows(), name, &CheckRow::name);
    REQUIRE(row != AllRows().end());
    return row->data;
  };
  const auto ops = data("ops f32");
  CHECK(ops["rows"] > 150);
  CHECK(ops["failures"].empty());
  CHECK(ops["worst_error_of_tolerance"] <= 1.0);
  const auto attention = data("attention 1 x 130, 1 heads of 64");
  CHECK(attention["gradient_seconds_by_warpgroups"] > 0.0);
  CHECK(attention["dq_difference_by_warpgroups"] <= 1.0 / 128);
  // Every kernel of the fake takes a millisecond: the first of two ways as fast.
  const std::string tried = attention["tried"];
  CHECK(tried.find("attention bf16(1, 130, 1, 64): by warps 1.000 ms, by "
                   "warpgroups 1.000 ms; attention_grad bf16(1, 130, 1, 64): "
                   "by warps 3.000 ms, by warpgroups 3.000 ms") !=
        std::string::npos);
  const auto bench = data("bench mlp f32");
  CHECK(bench["arena_bytes"] == bench["plan_bytes"]);
  // What the fake takes for the rest of a session.
  CHECK(bench["session_device_bytes"].get<Bytes>() ==
        bench["arena_bytes"].get<Bytes>() + 1'000'000);
  CHECK(bench["tokens_per_step"] == 8);
  CHECK(bench["median_step_seconds"] > 0.0);
}

TEST_CASE("the times of ops add up, the largest first") {
  const auto row =
      std::ranges::find(AllRows(), "times mlp f32", &CheckRow::name);
  REQUIRE(row != AllRows().end());
  double sum = 0, before = INFINITY;
  int64_t products = 0;
  for (const auto& op : row->data["ops"]) {
    const double seconds = op["seconds"];
    CHECK(seconds <= before);
    before = seconds;
    sum += seconds;
    if (op["op"] == "matmul" || op["op"] == "epilogue_matmul") {
      products += op["nodes"].get<int64_t>();
    }
  }
  CHECK(sum == doctest::Approx(row->data["seconds_by_op"].get<double>()));
  // Three layers: forward, by the weights, and by the inputs of all but the first.
  CHECK(products == 8);
}

TEST_CASE(
    "the row of branches tells what one costs, in the graph and by the host") {
  const auto row = std::ranges::find(AllRows(), "branches", &CheckRow::name);
  REQUIRE(row != AllRows().end());
  CHECK(row->data["difference"] <= 1e-5);
  for (const char* key : {"seconds_in_graph", "seconds_by_host",
                          "held_seconds_in_graph", "held_seconds_by_host"}) {
    CHECK(row->data[key].is_number());
  }
  CHECK(row->figure.find(" us in the graph") != std::string::npos);
}

TEST_CASE("a device without branches in graphs tells why the host takes them") {
  const auto rows = RunOn({.branches = FakeBranches::kNone}, {"branches"});
  CHECK(Failed(rows) == "");
  CHECK(
      rows[0].figure.find("for the host takes branches: [fake] no branches") !=
      std::string::npos);
  CHECK_FALSE(rows[0].data.contains("seconds_in_graph"));
}

TEST_CASE("a device that loses a kernel in bodies fails the branches") {
  const auto rows = RunOn({.lost_in_bodies = "tanh"}, {"branches"});
  CHECK(Failed(rows) == "branches");
  CHECK(rows[0].figure.find("by the host differs: ") != std::string::npos);
}

TEST_CASE("rows that are known are not run again") {
  SuiteOptions options = SuiteOptionsFor(SuiteSize::kSmall);
  options.only = {"device", "bench", "times"};
  options.known = {"bench mlp f32"};
  const auto rows = RunDeviceSuite(OpenFaulty({}), options);
  REQUIRE(rows.ok());
  REQUIRE(rows->size() == 2);
  CHECK(rows->front().name == "device");
  CHECK(rows->back().name == "times mlp f32");
}

TEST_CASE("a row runs alone, by its name") {
  SuiteOptions options = SuiteOptionsFor(SuiteSize::kSmall);
  options.row = "times mlp f32";
  const auto rows = RunDeviceSuite(OpenFaulty({}), options);
  REQUIRE(rows.ok());
  REQUIRE(rows->size() == 1);
  CHECK(rows->front().name == "times mlp f32");
  options.row = "times mlp";
  CHECK(RunDeviceSuite(OpenFaulty({}), options)->empty());
}

TEST_CASE("rows are named without a device, those worth most first") {
  SuiteOptions options = SuiteOptionsFor(SuiteSize::kFull);
  options.op_cases = 100;
  const std::vector<std::string> names = SuiteRows(options);
  CHECK(names[0] == "device");
  CHECK(names[1] == "ops bf16 1-100");
  CHECK(names[2] == "ops bf16 101-200");
  const auto at = [&](std::string_view name) {
    const auto found = std::ranges::find_if(
        names, [&](const std::string& each) { return each.starts_with(name); });
    REQUIRE_MESSAGE(found != names.end(), name);
    return found - names.begin();
  };
  CHECK(at("bench gpt2-124m bf16 64") < at("attention"));
  CHECK(at("attention") < at("bench gpt2-124m bf16 16"));
  CHECK(at("ops f32 1-100") < at("branches"));
  CHECK(at("branches") < at("growth"));
  // Each once, and those that are known or of other groups left out.
  CHECK(std::set(names.begin(), names.end()).size() == names.size());
  options.only = {"device", "ops"};
  options.known = {"ops bf16 1-100"};
  const std::vector<std::string> few = SuiteRows(options);
  CHECK(few[0] == "device");
  CHECK(few[1] == "ops bf16 101-200");
  CHECK(std::ranges::all_of(
      few.begin() + 1, few.end(),
      [](const std::string& name) { return name.starts_with("ops "); }));
}

TEST_CASE("the rows of the ops are the table's cases, each once") {
  SuiteOptions options = SuiteOptionsFor(SuiteSize::kSmall);
  options.only = {"ops"};
  options.op_cases = 400;
  // Of one type, since the others have as many.
  for (const std::string& name : SuiteRows(options)) {
    if (!name.starts_with("ops f32 ")) options.known.insert(name);
  }
  std::vector<std::string> ran;
  options.ops.at = [&](const std::string& name) { ran.push_back(name); };
  options.ops.skip = MostCasesBut("softmax");
  options.ops.skip.insert("layer_norm");
  const auto rows = RunDeviceSuite(OpenFaulty({}), options);
  REQUIRE(rows.ok());
  CHECK(Failed(*rows) == "");
  CHECK(rows->front().name == "ops f32 1-400");
  CHECK(rows->front().data["rows"] == 400);
  size_t found = 0, skipped = 0;
  for (const CheckRow& row : *rows) {
    found += row.data["rows"].get<size_t>();
    skipped += row.data["skipped"].get<size_t>();
    CHECK(row.figure.ends_with(
        StrCat("; ", row.data["skipped"].get<size_t>(), " skipped")));
  }
  const auto whole = std::ranges::find(AllRows(), "ops f32", &CheckRow::name);
  REQUIRE(whole != AllRows().end());
  CHECK(whole->data["skipped"] == 0);
  CHECK(found == whole->data["rows"].get<size_t>());
  CHECK(skipped > found / 2);
  CHECK(ran.size() == found - skipped);
  CHECK(std::ranges::find(ran, "layer_norm") == ran.end());
  CHECK(std::ranges::find(ran, "softmax") != ran.end());
}

TEST_CASE("the row of the device says what else there is to say") {
  SuiteOptions options = SuiteOptionsFor(SuiteSize::kSmall);
  options.only = {"device"};
  options.describe = [](CheckRow* row) { row->data["cudnn"] = "9.19"; };
  const auto rows = RunDeviceSuite(OpenFaulty({}), options);
  REQUIRE(rows.ok());
  CHECK(rows->front().data["cudnn"] == "9.19");
}

TEST_CASE("a kernel that does not work fails the ops and the models") {
  const auto rows = RunOn({.lost = "layer_norm"}, {"device", "ops", "models"},
                          MostCasesBut("layer_norm"));
  CHECK(Failed(rows) == "ops f32, ops bf16, ops f16, models gpt-nano");
  CHECK(rows[1].figure.find("layer_norm") != std::string::npos);
  CHECK(rows[1].data["failures"].size() < 20);  // only what uses it
}

TEST_CASE(
    "a kernel that fails where operands are off alignment fails the ops") {
  // Of the three sessions of a row the last has operands off their alignment.
  const auto rows = RunOn({.forgotten = "layer_norm", .every = 3}, {"ops"},
                          MostCasesBut("layer_norm"));
  CHECK(Failed(rows) == "ops f32, ops bf16, ops f16");
  CHECK(rows[0].figure.starts_with(
      "layer_norm: operands off their alignment give other bits"));
}

TEST_CASE("attention by warpgroups that is wrong fails its row") {
  const auto rows = RunOn({.lost = "attention, warpgroups"}, {"attention"});
  CHECK(Failed(rows) == "attention 1 x 130, 1 heads of 64");
  CHECK(rows[0].figure.starts_with("o by warpgroups differs by "));
  // The gradient is enqueued by another name, from what the first has written.
  const auto keys =
      RunOn({.lost = "attention grad, keys, warpgroups"}, {"attention"});
  CHECK(Failed(keys) == "attention 1 x 130, 1 heads of 64");
  CHECK(keys[0].figure.starts_with("dk by warpgroups differs by "));
}

TEST_CASE("a way of attention that a trial leaves out fails its row") {
  // The memory of a trial is the second that a device is asked for.
  const auto rows =
      RunOn({.forgotten = "attention, warpgroups"}, {"attention"});
  CHECK(Failed(rows) == "attention 1 x 130, 1 heads of 64");
  CHECK(rows[0].figure.starts_with("attention was tried: "));
  CHECK(rows[0].figure.find("by warpgroups left out: o was not written") !=
        std::string::npos);
}

TEST_CASE("a device that computes differently another time fails the bits") {
  SuiteOptions options = SuiteOptionsFor(SuiteSize::kSmall);
  options.only = {"bits"};
  options.models.resize(1);
  const auto rows = RunDeviceSuite(OpenFaulty({.forgotten = "mean"}), options);
  REQUIRE(rows.ok());
  CHECK(Failed(*rows) == "bits mlp f32, bits mlp bf16");
  CHECK(rows->front().figure.starts_with("a second run differs in loss 1"));
}

TEST_CASE("a device that loses a byte of memory a step fails the growth") {
  const auto rows = RunOn({.leak_per_step = 1}, {"growth"});
  CHECK(Failed(rows) == "growth gpt-nano");
  CHECK(rows[0].figure.starts_with("the device has 10 bytes less free"));
}

TEST_CASE("what the device cannot do is a failed row, not the end") {
  const auto rows = RunOn({.failing = "EndCapture"}, {"models", "bench"});
  CHECK(Failed(rows) == "bench mlp f32");
  CHECK(rows[0].figure.find("EndCapture was told to fail") !=
        std::string::npos);
}

TEST_CASE("an arena above the budget is refused") {
  SuiteOptions options = SuiteOptionsFor(SuiteSize::kSmall);
  options.only = {"bench"};
  options.bench[0].budget = 1000;
  const auto rows = RunDeviceSuite(OpenFaulty({}), options);
  REQUIRE(rows.ok());
  CHECK(Failed(*rows) == "bench mlp f32, 0.0 GB");
}

TEST_CASE("a step whose ops stand apart has more nodes than a fused one") {
  SuiteOptions options = SuiteOptionsFor(SuiteSize::kSmall);
  options.only = {"bench"};
  options.bench.push_back(options.bench[0]);
  options.bench[1].fused = false;
  const auto rows = RunDeviceSuite(OpenFaulty({}), options);
  REQUIRE(rows.ok());
  REQUIRE(rows->size() == 2);
  CHECK((*rows)[1].name == "bench mlp f32, apart");
  CHECK((*rows)[0].data["nodes"] < (*rows)[1].data["nodes"]);
}

TEST_CASE("no device is an error with its reason") {
  const OpenDevice none =
      [](const gpu::BackendOptions&) -> Result<OpenedDevice> {
    return Error{ErrorCode::kDevice, "[gpu] no driver"};
  };
  const auto rows = RunDeviceSuite(none, SuiteOptionsFor(SuiteSize::kSmall));
  REQUIRE_FALSE(rows.ok());
  CHECK(rows.error().message == "[gpu] no driver");
}

TEST_CASE("rows are a table, and an array of objects") {
  CheckRow row{.name = "ops f32", .figure = "7 rows", .seconds = 1.25};
  row.data["rows"] = 7;
  CheckRow bad{.name = "growth"};
  bad.Fail("3 bytes");
  bad.Fail("more");  // the first reason is the one to look at
  const CheckRow rows[] = {row, bad};
  CHECK(RowsToText(rows) ==
        "check                         status   seconds  found\n"
        "ops f32                       ok           1.2  7 rows\n"
        "growth                        FAIL         0.0  3 bytes\n");
  CHECK(RowsToJson(rows).dump() ==
        R"([{"name":"ops f32","status":"ok","figure":"7 rows","seconds":1.25,)"
        R"("rows":7},{"name":"growth","status":"FAIL","figure":"3 bytes",)"
        R"("seconds":0.0}])");
  // Back again, without those that failed.
  const auto kept = OkRowsOf(RowsToJson(rows));
  REQUIRE(kept.size() == 1);
  CHECK(RowsToJson(kept).dump() == RowsToJson({&row, 1}).dump());
  CHECK(OkRowsOf("no array").empty());
  CHECK(OkRowsOf(nlohmann::ordered_json::array({1, nullptr})).empty());
}

}  // namespace
}  // namespace stowage::testing
