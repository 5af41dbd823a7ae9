#include "runtime/session.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "autodiff/backward.h"
#include "autodiff/train_step.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "planner/fit/offload/offload.h"
#include "planner/plan_memory.h"
#include "runtime/backend.h"
#include "runtime/values.h"
#include "tests/runtime/session_fixture.h"

namespace stowage {
namespace {

using fit::FindOffloadable;
using fit::Offload;

TEST_CASE_FIXTURE(SessionFixture,
                  "a step of gradient descent is the one done by hand") {
  const Graph step =
      *BuildTrainStep(Regression(1), "loss", {.optimizer = Sgd{}});
  Session session = Open({{"train", step, PlanOf(step)}});
  session.Initialize(1);
  Runner& train = session.front();
  REQUIRE(train.Write("x", std::vector<float>{1, 2}).ok());
  REQUIRE(train.Write("y", std::vector<float>{1}).ok());
  REQUIRE(train.Write("lr", 0.125f).ok());
  REQUIRE(train.Write("step", int64_t{1}).ok());
  REQUIRE(train.Step() == StepCode::kOk);
  // w = (1, 1): prediction 3, loss 4, gradient 2 * 2 * x = (4, 8).
  CHECK(*train.ReadScalar("loss") == 4.0f);
  std::vector<float> w(2);
  REQUIRE(train.Read("w", &w).ok());
  CHECK(w == std::vector<float>{0.5f, 0.0f});
  // Inputs keep their content: prediction 0.5, loss 0.25.
  REQUIRE(train.Step() == StepCode::kOk);
  CHECK(*train.ReadScalar("loss") == 0.25f);
}

TEST_CASE_FIXTURE(SessionFixture,
                  "a number is written as the type of its leaf has it") {
  GraphBuilder g("numbers");
  const std::pair<std::string_view, DType> leaves[] = {
      {"f32", DType::kF32},   {"f64", DType::kF64},  {"f16", DType::kF16},
      {"bf16", DType::kBF16}, {"i32", DType::kI32},  {"i64", DType::kI64},
      {"u8", DType::kU8},     {"bool", DType::kBool}};
  for (const auto& [name, dtype] : leaves) {
    const Value leaf = g.Input(std::string(name), dtype, {});
    g.Output(StrCat(name, " out"), Copy(leaf));
  }
  const Graph graph = *g.Finish();
  Session session = Open({{"p", graph, PlanOf(graph)}});
  Runner& p = session.front();
  // As 1.1 and 3 are: f16 and bf16 by hand, 1.1 = 1.0001100110011...b.
  for (const std::string_view real : {"f32", "f64", "f16", "bf16"}) {
    CHECK(p.Write(real, 1.1).ok());
  }
  for (const std::string_view whole : {"i32", "i64", "u8"}) {
    CHECK(p.Write(whole, 3.0).ok());
  }
  CHECK(p.Write("bool", 1).ok());
  REQUIRE(p.Step() == StepCode::kOk);
  const auto read = [&](std::string_view name, auto element) {
    std::vector<decltype(element)> one(1);
    const Status status = p.ReadBytes(StrCat(name, " out"),
                                      graph.value(*graph.Find(name)).type.dtype,
                                      std::as_writable_bytes(std::span(one)));
    CHECK_MESSAGE(status.ok(), name);
    return one[0];
  };
  CHECK(read("f32", 0.0f) == 1.1f);
  CHECK(read("f64", 0.0) == 1.1);
  CHECK(read("f16", uint16_t{}) == 0x3C66);
  CHECK(read("bf16", uint16_t{}) == 0x3F8D);
  CHECK(read("i32", int32_t{}) == 3);
  CHECK(read("i64", int64_t{}) == 3);
  CHECK(read("u8", uint8_t{}) == 3);
  CHECK(read("bool", uint8_t{}) == 1);
  CHECK(p.Write("f32", 7).ok());
  CHECK(p.Write("f32", std::numeric_limits<double>::infinity()).ok());
  for (const auto& [name, number] :
       {std::pair("f32", 1e39), std::pair("f16", 65520.0),
        std::pair("bf16", 3.4e38), std::pair("i32", 0.5), std::pair("i32", 3e9),
        std::pair("i64", 1e19), std::pair("u8", -1.0), std::pair("bool", 2.0),
        std::pair("i64", std::nan(""))}) {
    const Status refused = p.Write(name, number);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message.find("does not have the number") !=
          std::string::npos);
  }
  CHECK_FALSE(p.Write("i64", ~uint64_t{0}).ok());
}

TEST_CASE_FIXTURE(SessionFixture,
                  "a timed step is a step, with a time for each op") {
  const Graph step =
      *BuildTrainStep(Regression(4), "loss", {.optimizer = Sgd{}});
  const auto run = [&](auto&& go) {
    Session session = Open({{"train", step, PlanOf(step)}});
    session.Initialize(1);
    Runner& train = session.front();
    CHECK(go(train) == StepCode::kInputsMissing);
    REQUIRE(train.Write("x", std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}).ok());
    REQUIRE(train.Write("y", std::vector<float>{1, 0, 1, 0}).ok());
    REQUIRE(train.Write("lr", 0.125f).ok());
    REQUIRE(train.Write("step", int64_t{1}).ok());
    REQUIRE(go(train) == StepCode::kOk);
    std::vector<float> seen(2);
    REQUIRE(train.Read("w", &seen).ok());
    seen.push_back(*train.ReadScalar("loss"));
    return seen;
  };
  std::vector<double> seconds(static_cast<size_t>(step.num_nodes()), -1);
  CHECK(run([&](Runner& train) { return train.StepTimed(seconds); }) ==
        run([](Runner& train) { return train.Step(); }));
  for (const double each : seconds) CHECK(each >= 0);
}

TEST_CASE_FIXTURE(SessionFixture,
                  "a step whose params were never set is refused") {
  const Graph step =
      *BuildTrainStep(Regression(1), "loss", {.optimizer = Momentum{}});
  const Graph eval = Regression(1);
  const Plan plan = PlanOf(step);
  const WeightLayout layout = WeightLayout::FromForward(step, plan);
  Session session =
      Open({{"train", step, plan}, {"eval", eval, PlanOf(eval, layout)}});
  Runner& train = *session.Find("train");
  Runner& evaluate = *session.Find("eval");
  const auto run = [](Runner& runner) {
    REQUIRE(runner.Write("x", std::vector<float>{1, 2}).ok());
    REQUIRE(runner.Write("y", std::vector<float>{1}).ok());
    if (runner.name() == "train") {
      REQUIRE(runner.Write("lr", 0.125f).ok());
      REQUIRE(runner.Write("step", int64_t{1}).ok());
    }
    return runner.Step();
  };
  const StepCode code = run(train);
  REQUIRE(code == StepCode::kInputsMissing);
  CHECK(train.Explain(code).message ==
        "[session] program \"train\" was stepped and its param \"w\" has no "
        "values yet; call Session::Initialize, or write or load all params and "
        "states");
  CHECK(run(evaluate) == StepCode::kInputsMissing);
  // Weights are enough for what has no states, by whichever program.
  REQUIRE(train.Write("w", std::vector<float>{1, 1}).ok());
  CHECK(run(evaluate) == StepCode::kOk);
  CHECK(run(train) == StepCode::kInputsMissing);
  CHECK(train.Explain(StepCode::kInputsMissing)
            .message.find("its state \"w.velocity\" has no values yet") !=
        std::string::npos);
  session.Initialize(1);
  CHECK(run(train) == StepCode::kOk);
}

TEST_CASE_FIXTURE(
    SessionFixture,
    "a param may be written in parts, the last of which makes it whole") {
  GraphBuilder g("parts");
  const Value x = g.Input("x", DType::kF32, {2});
  const Value w = g.Param("w", DType::kF32, {2, 3});
  const Value h = g.Param("h", DType::kBF16, {3});
  g.Output("y", Add(ReduceSum(MatMul(Reshape(x, {1, 2}), w)),
                    ReduceSum(Cast(h, DType::kF32))));
  const Graph graph = *g.Finish();
  Session session = Open({{"p", graph, PlanOf(graph)}});
  Runner& p = session.front();
  const auto part = [&](Bytes begin, const std::vector<float>& numbers) {
    return p.WritePart("w", DType::kF32, begin,
                       std::as_bytes(std::span(numbers)));
  };
  REQUIRE(p.Write("x", std::vector<float>{1, 10}).ok());
  REQUIRE(WriteFloats(p, "h", 0, std::vector<float>{1, 2}).ok());
  CHECK(part(0, {1, 2, 3, 4}).ok());
  CHECK(p.Step() == StepCode::kInputsMissing);
  CHECK(part(16, {5, 6}).ok());
  CHECK(p.Step() == StepCode::kInputsMissing);  // of h, the last is not there
  REQUIRE(WriteFloats(p, "h", 2, std::vector<float>{1.01171875f}).ok());
  REQUIRE(p.Step() == StepCode::kOk);
  std::vector<float> y(1);
  REQUIRE(p.Read("y", &y).ok());
  // 1.01171875 lies between two numbers of bf16 and goes to the even one, 1.015625.
  CHECK(y[0] == 1 + 2 + 3 + 40 + 50 + 60 + 1 + 2 + 1.015625f);
  CHECK(part(4, {7}).ok());
  REQUIRE(p.Step() == StepCode::kOk);
  REQUIRE(p.Read("y", &y).ok());
  CHECK(y[0] == 1 + 7 + 3 + 40 + 50 + 60 + 1 + 2 + 1.015625f);

  std::vector<float> read(3);
  const auto read_part = [&](Bytes begin, size_t count) {
    return p.ReadPart("w", DType::kF32, begin,
                      std::as_writable_bytes(std::span(read).first(count)));
  };
  CHECK(read_part(4, 3).ok());
  CHECK(read == std::vector<float>{7, 3, 4});
  CHECK(read_part(20, 1).ok());
  CHECK(read == std::vector<float>{6, 3, 4});

  const auto says = [](const Status& status, std::string_view text) {
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().message.find(text) != std::string::npos);
  };
  says(read_part(20, 2),
       "param \"w\" is f32(2, 3), 24 bytes; was asked for 8 bytes of f32 from "
       "byte 20 on");
  says(p.ReadPart("h", DType::kF32, 0, {}), "param \"h\" is bf16(3)");
  says(p.ReadPart("y", DType::kF32, 0, {}), "has no param or state \"y\"");
  says(part(20, {1, 2}),
       "param \"w\" is f32(2, 3), 24 bytes; was given 8 bytes of f32 from byte "
       "20 on");
  says(part(-4, {1}), "from byte -4 on");
  says(p.WritePart("h", DType::kF32, 0, {}), "param \"h\" is bf16(3)");
  says(p.WritePart("x", DType::kF32, 0, {}), "has no param or state \"x\"");
  says(WriteFloats(p, "none", 0, std::vector<float>{1}),
       "has no param or state \"none\"");
}

TEST_CASE("a checked CPU names the first result that is not finite") {
  GraphBuilder g("check");
  Value x = g.Input("x", DType::kF32, {3});
  g.Output("loss", ReduceSum(Mul(Log(x), x)));
  const Graph graph = *g.Finish();
  for (const bool check : {false, true}) {
    const auto cpu = MakeCpuBackend({.threads = 1, .check = check});
    auto session = Session::Create(
        {{"p", graph, *PlanMemory(graph, {.device = cpu->Needs()})}}, *cpu);
    REQUIRE(session.ok());
    Runner& p = session->front();
    REQUIRE(p.Write("x", std::vector<float>{1, 0, 2}).ok());
    const StepCode code = p.Step();
    REQUIRE(code == (check ? StepCode::kNonFinite : StepCode::kOk));
    if (!check) continue;
    const Error error = p.Explain(code);
    CHECK(error.code == ErrorCode::kNotFinite);
    CHECK(error.message.find("failed at \"log") != std::string::npos);
    REQUIRE(p.Write("x", std::vector<float>{1, 1, 1}).ok());
    CHECK(p.Step() == StepCode::kOk);
  }
}

TEST_CASE_FIXTURE(SessionFixture, "the arena is exactly the largest plan") {
  const Graph step = *BuildTrainStep(Regression(8), "loss");
  const Plan plan = PlanOf(step);
  CHECK(Open({{"train", step, plan}}).arena_bytes() == plan.arena_bytes());
}

TEST_CASE_FIXTURE(SessionFixture, "programs share weights and nothing else") {
  const Graph step =
      *BuildTrainStep(Regression(1), "loss", {.optimizer = Momentum{}});
  const Graph eval = Regression(4);
  const Plan step_plan = PlanOf(step);
  const WeightLayout layout = WeightLayout::FromForward(step, step_plan);
  Session session =
      Open({{"train", step, step_plan}, {"eval", eval, PlanOf(eval, layout)}});
  session.Initialize(1);
  Runner& train = *session.Find("train");
  Runner& evaluate = *session.Find("eval");
  CHECK(session.Find("generate") == nullptr);

  REQUIRE(train.Write("x", std::vector<float>{1, 2}).ok());
  REQUIRE(train.Write("y", std::vector<float>{1}).ok());
  REQUIRE(train.Write("lr", 0.125f).ok());
  REQUIRE(train.Write("step", int64_t{1}).ok());
  REQUIRE(train.Step() == StepCode::kOk);

  REQUIRE(evaluate.Write("x", std::vector<float>{2, 0, 0, 1, 0, 0, 2, 2}).ok());
  REQUIRE(evaluate.Write("y", std::vector<float>(4, 0)).ok());
  REQUIRE(evaluate.Step() == StepCode::kOk);
  // The trained w is (0.5, 0): predictions 1, 0, 0, 1.
  CHECK(*evaluate.ReadScalar("loss") == 0.5f);

  SUBCASE("a step whose inputs another program has overwritten is refused") {
    const StepCode code = train.Step();
    REQUIRE(code == StepCode::kInputsMissing);
    CHECK(train.Explain(code).message ==
          "[session] program \"train\" was stepped without input \"x\": it was "
          "never written, or another program has been used since; write it "
          "before "
          "the step");
    const auto loss = train.ReadScalar("loss");
    REQUIRE_FALSE(loss.ok());
    CHECK(
        loss.error().message ==
        "[session] \"loss\" of program \"train\" is gone: the program has not "
        "stepped, or another has been used since");
  }
  SUBCASE("with its inputs written again it goes on from the same state") {
    REQUIRE(train.Write("x", std::vector<float>{1, 2}).ok());
    REQUIRE(train.Write("y", std::vector<float>{1}).ok());
    REQUIRE(train.Write("lr", 0.125f).ok());
    REQUIRE(train.Write("step", int64_t{1}).ok());
    REQUIRE(train.Step() == StepCode::kOk);
    // Gradient at (0.5, 0): 2 * (0.5 - 1) * (1, 2) = (-1, -2); velocity was (4,
    // 8), now 0.9 * (4, 8) + (-1, -2) = (2.6, 5.2).
    std::vector<float> w(2);
    REQUIRE(train.Read("w", &w).ok());
    CHECK(w[0] == doctest::Approx(0.5 - 0.125 * 2.6));
    CHECK(w[1] == doctest::Approx(0.0 - 0.125 * 5.2));
  }
}

TEST_CASE_FIXTURE(SessionFixture,
                  "programs that disagree on the weights are refused") {
  const Graph step = *BuildTrainStep(Regression(1), "loss");
  const Graph eval = Regression(4);
  CHECK(
      Refusal({{"train", step, PlanOf(step)}, {"eval", eval, PlanOf(eval)}}) ==
      "[session] program \"eval\" reserves 256 bytes of weights and 0 of "
      "state, "
      "program \"train\" 256 and 512 of state; plan all of them with one "
      "WeightLayout, "
      "taken from the plan that has the states");
}

TEST_CASE_FIXTURE(SessionFixture,
                  "programs that lay different weights over each other are "
                  "refused") {
  const auto model = [](const char* name) {
    GraphBuilder g(name);
    g.Output("sum", ReduceSum(g.Param(name, DType::kF32, {4})));
    return *g.Finish();
  };
  const Graph a = model("a");
  const Graph b = model("b");
  CHECK(Refusal({{"p", a, PlanOf(a)}, {"q", b, PlanOf(b)}}) ==
        "[session] \"a\" of program \"p\", f32(4) at 0, and \"b\" of program "
        "\"q\", f32(4) at 0, share bytes; plan the programs with one "
        "WeightLayout that has both");
}

TEST_CASE_FIXTURE(SessionFixture,
                  "results can be read after a step, and not before") {
  GraphBuilder g("classifier");
  Value logits = g.Input("logits", DType::kF32, {2, 3});
  g.Output("loss", CrossEntropy(logits, g.Input("labels", DType::kI32, {2})));
  const Graph graph = *g.Finish();
  Session session = Open({{"p", graph, PlanOf(graph)}});
  Runner& p = session.front();
  REQUIRE(p.Write("logits", std::vector<float>(6, 2)).ok());
  std::vector<float> back(6);
  CHECK(p.Read("logits", &back).ok());
  CHECK(back == std::vector<float>(6, 2));
  std::vector<int32_t> labels(2);
  CHECK_FALSE(p.Read("labels", &labels).ok());
  CHECK_FALSE(p.ReadScalar("loss").ok());
  REQUIRE(p.Write("labels", std::vector<int32_t>{0, 1}).ok());
  CHECK_FALSE(p.ReadScalar("loss").ok());
  REQUIRE(p.Step() == StepCode::kOk);
  CHECK(p.ReadScalar("loss").ok());
  REQUIRE(p.Write("labels", std::vector<int32_t>{0, 3}).ok());
  CHECK(p.ReadScalar("loss").ok());  // inputs lie apart from results
  REQUIRE(p.Step() == StepCode::kIndexOutOfRange);
  CHECK_FALSE(p.ReadScalar("loss").ok());
}

TEST_CASE_FIXTURE(SessionFixture, "sessions that cannot work are refused") {
  const Graph a = Regression(1);
  const Graph b = Regression(2);
  CHECK(Refusal({}) == "[session] there are no programs; give at least one");
  CHECK(Refusal({{"p", a, PlanOf(a)}, {"p", a, PlanOf(a)}}) ==
        "[session] two programs are called \"p\"; names must be unique");
  CHECK(Refusal({{"p", a, PlanOf(b)}}).find("made for another graph") !=
        std::string::npos);
  Plan broken = PlanOf(a);
  broken.buffers[0].offset += 4;
  CHECK(Refusal({{"p", a, broken}}).find("is not valid: [validate] slot") !=
        std::string::npos);
}

TEST_CASE_FIXTURE(SessionFixture, "a plan with constants of C is refused") {
  GraphBuilder b("net");
  b.Output("y", Neg(b.Param("w", DType::kF32, {4})));
  const Graph graph = *b.Finish();
  const Result<Plan> plan = PlanMemory(graph, {.outside = {"w"}});
  REQUIRE(plan.ok());
  CHECK(Refusal({{"p", graph, *plan}})
            .find("has param \"w\" outside of the arena") != std::string::npos);
}

TEST_CASE_FIXTURE(SessionFixture, "the caller's bytes serve as the arena") {
  const Graph graph = Regression(2);
  const Plan plan = PlanOf(graph);
  const auto bytes = static_cast<size_t>(plan.arena_bytes());
  std::vector<std::byte> block(bytes + 256);
  void* at = block.data();
  size_t room = block.size();
  auto* const base = static_cast<std::byte*>(std::align(256, bytes, at, room));
  Session session =
      Open({{"p", graph, plan}}, {.arena = {base, bytes}, .poison = false});
  session.Initialize(3);
  REQUIRE(session.front().Write("x", std::vector<float>{1, 2, 3, 4}).ok());
  REQUIRE(session.front().Write("y", std::vector<float>{3, 8}).ok());
  REQUIRE(session.front().Step() == StepCode::kOk);
  CHECK(*session.front().ReadScalar("loss") == 0.5f);  // (0 + 1) / 2

  CHECK(Refusal({{"p", graph, plan}},
                {.arena = {base, bytes - 1}, .poison = false})
            .find("the plans need") != std::string::npos);
  CHECK(Refusal({{"p", graph, plan}},
                {.arena = {base + 8, bytes}, .poison = false})
            .find("is 8 modulo 256") != std::string::npos);
}

TEST_CASE_FIXTURE(SessionFixture, "reading and writing name what is wrong") {
  const Graph graph = Regression(2);
  Session session = Open({{"p", graph, PlanOf(graph)}});
  Runner& p = session.front();
  const auto message = [](const Status& status) {
    REQUIRE_FALSE(status.ok());
    return status.error().message;
  };
  CHECK(message(p.Write("z", 1.0f)) ==
        "[session] program \"p\" has no leaf \"z\"; only inputs, saved values, "
        "params, states and caches can be written");
  CHECK(message(p.Write("loss", 1.0f)).find("has no leaf \"loss\"") !=
        std::string::npos);
  CHECK(message(p.Write("x", std::vector<float>{1, 2, 3})) ==
        "[session] input \"x\" is f32(2, 2), 16 bytes; was given 12 bytes of "
        "f32");
  CHECK(message(p.Write("x", std::vector<int32_t>{1, 2, 3, 4})) ==
        "[session] input \"x\" is f32(2, 2), 16 bytes; was given 16 bytes of "
        "i32");
  CHECK(message(p.Write("x", 1)) ==
        "[session] input \"x\" is f32(2, 2), 16 bytes; was given 4 bytes of "
        "f32");
  std::vector<float> four(4);
  CHECK(message(p.Read("nothing", &four)) ==
        "[session] program \"p\" has no value \"nothing\"");
  CHECK(
      message(p.Read("matmul_1", &four)) ==
      "[session] \"matmul_1\" of program \"p\" does not survive the step; make "
      "it an output");
}

TEST_CASE_FIXTURE(SessionFixture,
                  "an output that is a view is read in its own order") {
  GraphBuilder g("views");
  Value x = g.Input("x", DType::kF32, {2, 3});
  Value y = MulScalar(x, 2);
  g.Output("columns", Transpose(y));
  g.Output("every_other", Slice(y, 1, 0, 3, 2));
  const Graph graph = *g.Finish();
  Session session = Open({{"p", graph, PlanOf(graph)}});
  Runner& p = session.front();
  REQUIRE(p.Write("x", std::vector<float>{1, 2, 3, 4, 5, 6}).ok());
  REQUIRE(p.Step() == StepCode::kOk);
  std::vector<float> columns(6), every_other(4);
  REQUIRE(p.Read("columns", &columns).ok());
  CHECK(columns == std::vector<float>{2, 8, 4, 10, 6, 12});
  REQUIRE(p.Read("every_other", &every_other).ok());
  CHECK(every_other == std::vector<float>{2, 6, 8, 12});
}

TEST_CASE_FIXTURE(SessionFixture,
                  "a label out of range stops the step and is explained") {
  GraphBuilder g("classifier");
  Value logits = g.Input("logits", DType::kF32, {2, 3});
  g.Output("loss", CrossEntropy(logits, g.Input("labels", DType::kI32, {2})));
  const Graph graph = *g.Finish();
  Session session = Open({{"p", graph, PlanOf(graph)}});
  Runner& p = session.front();
  REQUIRE(p.Write("logits", std::vector<float>(6, 0)).ok());
  REQUIRE(p.Write("labels", std::vector<int32_t>{0, 3}).ok());
  const StepCode code = p.Step();
  REQUIRE(code == StepCode::kIndexOutOfRange);
  CHECK(p.Explain(code).message.find("failed at \"loss\": an index or "
                                     "label is outside its range") !=
        std::string::npos);
  REQUIRE(p.Write("labels", std::vector<int32_t>{0, 2}).ok());
  REQUIRE(p.Step() == StepCode::kOk);
  CHECK(*p.ReadScalar("loss") == doctest::Approx(std::log(3.0)));
}

TEST_CASE_FIXTURE(
    SessionFixture,
    "steps are started, waited for, and kept while four more are") {
  const Graph step =
      *BuildTrainStep(Regression(1), "loss", {.optimizer = Sgd{}});
  Session session = Open({{"train", step, PlanOf(step)}});
  session.Initialize(1);
  Runner& train = session.front();
  CHECK(train.Wait(1) == StepCode::kStepUnknown);
  CHECK(train.Wait(0) == StepCode::kStepUnknown);
  const uint64_t refused = train.Start();  // nothing has been written
  CHECK(refused == 1);
  CHECK(train.Wait(refused) == StepCode::kInputsMissing);
  CHECK(train.ReadScalar("loss", refused)
            .error()
            .message.find("was stepped without input") != std::string::npos);

  REQUIRE(train.Write("x", std::vector<float>{1, 2}).ok());
  REQUIRE(train.Write("y", std::vector<float>{1}).ok());
  REQUIRE(train.Write("lr", 0.125f).ok());
  REQUIRE(train.Write("step", int64_t{1}).ok());
  const uint64_t first = train.Start();
  CHECK(first == 2);
  // The loss was 4 and w is (0.5, 0) now: prediction 0.5.
  REQUIRE(train.Write("y", std::vector<float>{0.5}).ok());
  CHECK(train.Start() == 3);
  CHECK(*train.ReadScalar("loss", first) == 4.0f);
  CHECK(*train.ReadScalar("loss", 3) == 0.0f);
  CHECK(*train.ReadScalar("loss") == 0.0f);
  CHECK(train.ReadScalar("w", 3).error().message ==
        "[session] program \"train\" has no output \"w\" that is one f32 "
        "element");
  CHECK_FALSE(train.ReadScalar("nothing", 3).ok());
  for (uint64_t step = 4; step <= 5; ++step) CHECK(train.Start() == step);
  CHECK(train.Wait(first) == StepCode::kOk);
  CHECK(*train.ReadScalar("loss", first) == 4.0f);
  CHECK(train.Start() == 6);
  CHECK(train.Wait(first) == StepCode::kStepUnknown);
  CHECK(train.ReadScalar("loss", first).error().message ==
        "[session] program \"train\" has started 6 steps and was asked for "
        "another, or for one that is not among the last 4");
  CHECK(train.Wait(7) == StepCode::kStepUnknown);
}

TEST_CASE_FIXTURE(SessionFixture,
                  "the host's memory is exactly what the plans ask for") {
  const Graph step = *BuildTrainStep(Regression(8), "loss");
  const Graph moved = *Offload(step, FindOffloadable(step));
  const Plan plan = PlanOf(moved);
  REQUIRE(plan.host_bytes() > 0);
  const WeightLayout layout = WeightLayout::FromForward(moved, plan);
  const Graph evaluate = Regression(32);
  Session session = Open({{"train", moved, plan},
                          {"evaluate", evaluate, PlanOf(evaluate, layout)}});
  CHECK(session.host_bytes() == plan.host_bytes());
  CHECK(Open({{"train", step, PlanOf(step)}}).host_bytes() == 0);

  // States there are written and read by name like all others.
  session.Initialize(1);
  Runner& train = session.front();
  std::vector<float> m(2, 7.0f);
  REQUIRE(train.Read("w.m", &m).ok());
  CHECK(m == std::vector<float>{0, 0});
  REQUIRE(train.Write("w.m", std::vector<float>{0.5f, -0.5f}).ok());
  REQUIRE(train.Read("w.m", &m).ok());
  CHECK(m == std::vector<float>{0.5f, -0.5f});
  // An evaluation leaves them alone, a step does not.
  Runner& other = *session.Find("evaluate");
  REQUIRE(other.Write("x", std::vector<float>(64, 1.0f)).ok());
  REQUIRE(other.Write("y", std::vector<float>(32, 1.0f)).ok());
  REQUIRE(other.Step() == StepCode::kOk);
  REQUIRE(train.Read("w.m", &m).ok());
  CHECK(m == std::vector<float>{0.5f, -0.5f});
  REQUIRE(train.Write("x", std::vector<float>(16, 1.0f)).ok());
  REQUIRE(train.Write("y", std::vector<float>(8, 2.0f)).ok());
  REQUIRE(train.Write("lr", 0.0f).ok());
  REQUIRE(train.Write("step", int64_t{1}).ok());
  REQUIRE(train.Step() == StepCode::kOk);
  REQUIRE(train.Read("w.m", &m).ok());
  // The prediction is right: m decays by beta1, 0.9.
  CHECK(m[0] == doctest::Approx(0.45f));
  CHECK(m[1] == doctest::Approx(-0.45f));
}

TEST_CASE_FIXTURE(SessionFixture,
                  "programs must agree on what is on the host") {
  const Graph step = *BuildTrainStep(Regression(8), "loss");
  const Graph moved = *Offload(step, FindOffloadable(step));
  const Plan plan = PlanOf(moved);
  CHECK(
      Refusal({{"one", moved, plan}, {"two", step, PlanOf(step)}}) ==
      "[session] program \"two\" reserves 256 bytes of weights and 512 of "
      "state, program \"one\" 256 and 0 of state and 512 of state on the "
      "host; plan all of them with one WeightLayout, taken from the plan that "
      "has the states");
  Plan swapped = plan;
  for (PlannedBuffer& buffer : swapped.buffers) {
    if (buffer.region == Region::kHostState)
      buffer.offset = 256 - buffer.offset;
  }
  CHECK(
      Refusal({{"one", moved, plan}, {"two", moved, swapped}}) ==
      "[session] programs \"one\" and \"two\" disagree on \"w.m\": "
      "f32(2, 1) on the host at 0 and f32(2, 1) on the host at 256; plan them "
      "with one WeightLayout");
}

TEST_CASE_FIXTURE(SessionFixture,
                  "a saved value must be written for every step") {
  const Graph forward = Regression(2);
  const Graph backward = *BuildBackward(forward, "loss");
  REQUIRE_FALSE(backward.Leaves(Role::kSaved).empty());
  Session session = Open({{"backward", backward, PlanOf(backward)}});
  session.Initialize(1);
  Runner& runner = session.front();
  for (const Role role : {Role::kInput, Role::kSaved}) {
    for (const ValueId id : backward.Leaves(role)) {
      const ValueInfo& value = backward.value(id);
      std::vector<float> data(
          static_cast<size_t>(value.type.shape.num_elements()), 1.0f);
      REQUIRE(runner.Write(value.name, data).ok());
    }
  }
  CHECK(runner.Step() == StepCode::kOk);
  CHECK(runner.Step() == StepCode::kInputsMissing);
  // Results stay, until a saved value is written where one of them may be.
  std::vector<float> gradient(2);
  CHECK(runner.Read("grad:w", &gradient).ok());
  const ValueInfo& saved = backward.value(backward.Leaves(Role::kSaved)[0]);
  REQUIRE(runner
              .Write(saved.name, std::vector<float>(static_cast<size_t>(
                                     saved.type.shape.num_elements())))
              .ok());
  CHECK_FALSE(runner.Read("grad:w", &gradient).ok());
}

}  // namespace
}  // namespace stowage
