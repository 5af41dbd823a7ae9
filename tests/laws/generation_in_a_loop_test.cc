// Text by a recurrent net within one program: a loop carries the token and the state, draws
// the next token from the logits, and stacks what it drew; a while loop ends at a token that
// ends the text. The tokens are those of the formulas, worked out beside it.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"

namespace stowage {
namespace {

constexpr int64_t kWords = 11, kWidth = 6;

// The leaves, which are declared in this order.
struct Net {
  Value table, state, output;  // (words, width), (width, width), (width, words)
};

Net Declare(GraphBuilder& g) {
  return {g.Input("table", DType::kF64, {kWords, kWidth}),
          g.Input("state", DType::kF64, {kWidth, kWidth}),
          g.Input("output", DType::kF64, {kWidth, kWords})};
}

// What follows a token, after a state of the text before it.
struct Next {
  Value state, logits;
};
Next Step(Value token, Value state, const Net& net) {
  const Value now =
      Tanh(Add(Gather(net.table, token), MatMul(state, net.state)));
  return {now, MatMul(now, net.output)};
}

// A number for each element of a leaf.
double Number(int leaf, int64_t i) {
  return std::sin(1.7 * static_cast<double>(i) + 3.1 * leaf) * 1.5;
}
std::vector<double> Numbers(int leaf, int64_t count) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(Number(leaf, i));
  return numbers;
}

// The same by hand: which token follows, with noise on the logits; changes the state.
int32_t Follows(int32_t token, std::vector<double>& state,
                const double* noise) {
  std::vector<double> now, logits;
  for (int64_t c = 0; c < kWidth; ++c) {
    double sum = Number(0, token * kWidth + c);
    for (int64_t k = 0; k < kWidth; ++k) {
      sum += state[static_cast<size_t>(k)] * Number(1, k * kWidth + c);
    }
    now.push_back(std::tanh(sum));
  }
  for (int64_t v = 0; v < kWords; ++v) {
    double sum = noise == nullptr ? 0 : noise[v];
    for (int64_t k = 0; k < kWidth; ++k) {
      sum += now[static_cast<size_t>(k)] * Number(2, k * kWords + v);
    }
    logits.push_back(sum);
  }
  state = now;
  return static_cast<int32_t>(std::ranges::max_element(logits) -
                              logits.begin());
}

// `count` tokens behind "first": of the largest logits with noise, which draws from their
// softmax if the noise is Gumbel's.
Graph Drawing(int64_t count) {
  GraphBuilder g("drawing");
  const Net net = Declare(g);
  const Value first = g.Input("first", DType::kI32, {1});
  const Value noise = g.Input("noise", DType::kF64, {count, 1, kWords});
  const LoopResults run = Loop(
      g, count,
      {.carried = {first, Fill(g, 0, DType::kF64, {1, kWidth})},
       .sliced = {noise},
       .whole = {net.table, net.state, net.output}},
      [](LoopBody& body) {
        const Next next = Step(body.carried(0), body.carried(1),
                               {body.whole(0), body.whole(1), body.whole(2)});
        const Value drawn = ArgMax(Add(next.logits, body.sliced(0)));
        body.Next(0, drawn);
        body.Next(1, next.state);
        body.Stack(drawn);
      });
  g.Output("text", g.Name("text", run.stacked[0]));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *graph;
}

// The likeliest tokens until one is `end`, `most` at most: how many there are, and the last.
Graph Ending(int64_t most, int32_t end) {
  GraphBuilder g("ending");
  const Net net = Declare(g);
  const Value first = g.Input("first", DType::kI32, {1});
  const WhileResults run = While(
      g, most,
      {.carried = {first, Fill(g, 0, DType::kF64, {1, kWidth})},
       .whole = {net.table, net.state, net.output}},
      [&](const WhileValues& v) {
        const Value is_end =
            Equal(v.carried[0], Fill(v.builder, end, DType::kI32, {1}));
        return LogicalNot(Reshape(is_end, {}));
      },
      [](const WhileValues& v) {
        const Next next = Step(v.carried[0], v.carried[1],
                               {v.whole[0], v.whole[1], v.whole[2]});
        return std::vector{ArgMax(next.logits), next.state};
      });
  g.Output("iterations", g.Name("iterations", run.iterations));
  g.Output("last", g.Name("last", run.carried[0]));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *graph;
}

// The outputs of one run.
struct Ran {
  std::vector<int32_t> tokens;
  int64_t iterations = 0;
};
Ran Run(const Graph& graph, int32_t first, const std::vector<double>& noise,
        bool poison) {
  const auto cpu = MakeCpuBackend({.threads = 1});
  const Result<Plan> plan = PlanMemory(graph, {.device = cpu->Needs()});
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  Result<Session> session =
      Session::Create({{"generate", graph, *plan}}, *cpu, {.poison = poison});
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  Runner& runner = session->front();
  const auto write = [&](const char* name, const std::vector<double>& numbers) {
    const Status written = runner.Write(name, numbers);
    REQUIRE_MESSAGE(written.ok(), written.error().message);
  };
  write("table", Numbers(0, kWords * kWidth));
  write("state", Numbers(1, kWidth * kWidth));
  write("output", Numbers(2, kWidth * kWords));
  if (!noise.empty()) write("noise", noise);
  REQUIRE(runner.Write("first", first).ok());
  REQUIRE(runner.Step() == StepCode::kOk);
  Ran ran;
  if (graph.Find("text")) {
    ran.tokens.resize(noise.size() / kWords);
    REQUIRE(runner.Read("text", &ran.tokens).ok());
  } else {
    ran.tokens.resize(1);
    REQUIRE(runner.Read("last", &ran.tokens).ok());
    std::vector<int64_t> iterations(1);
    REQUIRE(runner.Read("iterations", &iterations).ok());
    ran.iterations = iterations[0];
  }
  return ran;
}

TEST_CASE("a loop draws a text, token by token") {
  constexpr int64_t kCount = 40;
  const Graph graph = Drawing(kCount);
  for (const double much : {0.0, 1.0}) {
    std::vector<double> noise;
    for (int64_t i = 0; i < kCount * kWords; ++i) {
      const double uniform =
          0.5 + 0.499 * std::sin(0.9 * static_cast<double>(i * i));
      noise.push_back(much * -std::log(-std::log(uniform)));
    }
    for (const int32_t first : {0, 5, 10}) {
      CAPTURE(much);
      CAPTURE(first);
      std::vector<int32_t> expected;
      std::vector<double> state(kWidth, 0);
      for (int64_t t = 0; t < kCount; ++t) {
        expected.push_back(Follows(t == 0 ? first : expected.back(), state,
                                   noise.data() + t * kWords));
      }
      CHECK(Run(graph, first, noise, false).tokens == expected);
      CHECK(Run(graph, first, noise, true).tokens == expected);
    }
  }
}

TEST_CASE(
    "a longer text takes no more memory but for its tokens and its noise") {
  const auto rest = [](int64_t count) {
    const Result<Plan> plan = PlanMemory(Drawing(count), {.alignment = 8});
    REQUIRE(plan.ok());
    const Bytes tokens = AlignUp(count * Bytes{4}, 8);
    return plan->arena_bytes() - tokens - count * kWords * 8;
  };
  CHECK(rest(10'000) == rest(10));
}

TEST_CASE("a while loop ends a text at its last token") {
  for (const int32_t first : {1, 5, 10}) {
    for (int32_t end = 0; end < kWords; ++end) {
      CAPTURE(first);
      CAPTURE(end);
      constexpr int64_t kMax = 25;
      std::vector<double> state(kWidth, 0);
      int32_t token = first;
      int64_t iterations = 0;
      for (; iterations < kMax && token != end; ++iterations) {
        token = Follows(token, state, nullptr);
      }
      const Ran ran = Run(Ending(kMax, end), first, {}, end % 2 == 0);
      CHECK(ran.iterations == iterations);
      CHECK(ran.tokens == std::vector<int32_t>{token});
    }
  }
}

}  // namespace
}  // namespace stowage
