// Frozen params as constants of the C file, which are not in the arena.

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "base/strings.h"
#include "compile/compile.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/ops.h"
#include "planner/plan_memory.h"
#include "tests/compile/host_library.h"
#include "tests/support/files.h"

namespace stowage {
namespace {

using testing::HostLibrary;
using testing::OutputOf;

// h.next = tanh(h w + xs[i]), three times: h, xs and w are params, and `h` is an output. v
// is a param that is in the arena.
Graph LoopOverParams() {
  GraphBuilder g("net");
  const Value h = g.Param("h", DType::kF32, {1, 4});
  const Value xs = g.Param("xs", DType::kF32, {3, 1, 4});
  const Value w = g.Param("w", DType::kF32, {4, 4});
  const Value v = g.Param("v", DType::kF32, {4}, Init::Constant(0.5));
  const LoopResults run = Loop(
      g, 3, {.carried = {h}, .sliced = {xs}, .whole = {w}}, [](LoopBody& body) {
        body.Next(0, Tanh(Add(MatMul(body.carried(0), body.whole(0)),
                              body.sliced(0))));
      });
  g.Output("last", Add(run.carried[0], v));
  g.Output("w.t", Transpose(w));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *graph;
}

// Numbers that differ, for each of the three.
std::map<std::string, std::string> Contents() {
  std::map<std::string, std::string> contents;
  const auto add = [&](const std::string& name, int count) {
    std::vector<float> numbers;
    for (int i = 0; i < count; ++i) {
      numbers.push_back(static_cast<float>(i * 7 % 5 - 2) / 4 +
                        static_cast<float>(count) / 100);
    }
    contents[name].assign(reinterpret_cast<const char*>(numbers.data()),
                          numbers.size() * sizeof(float));
  };
  add("h", 4);
  add("xs", 12);
  add("w", 16);
  return contents;
}

Result<CompiledStep> Compile(const std::set<std::string>& outside,
                             const std::map<std::string, std::string>& contents,
                             bool caller_arena = false) {
  const Graph graph = LoopOverParams();
  const Result<Plan> plan = PlanMemory(
      graph,
      {.alignment = kCAlignment, .device = NeedsOfC(), .outside = outside});
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  return CompileToC(graph, *plan,
                    {.caller_arena = caller_arena, .contents = contents});
}

std::vector<float> LastOf(const HostLibrary& library) {
  library.Get<void(uint64_t)>("step_init")(1);
  REQUIRE(library.Get<int()>("step_step")() == 0);
  const float* const last = library.Get<const float*()>("step_output_last")();
  return {last, last + 4};
}

TEST_CASE("constants give the bits of params in the arena, without its bytes") {
  const auto inside = Compile({}, Contents());
  const auto outside = Compile({"h", "xs", "w"}, Contents());
  REQUIRE_MESSAGE(inside.ok(), inside.error().message);
  REQUIRE_MESSAGE(outside.ok(), outside.error().message);
  constexpr Bytes kConstants = 4 * (4 + 12 + 16);
  CHECK(outside->arena == inside->arena - kConstants);
  CHECK(outside->flash == kConstants);
  const HostLibrary before(
      "inside", {{"step.h", inside->header}, {"step.c", inside->source}});
  const HostLibrary after(
      "outside", {{"step.h", outside->header}, {"step.c", outside->source}});
  const std::vector<float> expected = LastOf(before);
  CHECK(expected[0] != expected[1]);
  CHECK(LastOf(after) == expected);
  // A view of a constant is an output where the constant is, and a param can be read there.
  const float* const w = after.Get<const float*()>("step_param_w")();
  CHECK(std::memcmp(w, Contents()["w"].data(), 64) == 0);
  CHECK(after.Get<const float*()>("step_output_w_t")() == w);
  for (const std::string& line :
       {std::string("const float *step_param_w(void);"),
        std::string("\nfloat *step_param_v(void);"),
        StrCat("STEP_FLASH_BYTES ", kConstants, "\n"),
        // v alone, behind the fingerprint
        std::string("STEP_SAVED_BYTES 24\n")}) {
    CHECK_MESSAGE(outside->header.find(line) != std::string::npos, line);
  }
}

TEST_CASE("initial values and constants side by side stay apart") {
  // gcc 12 joins copies of 40 and 48 constant bytes wrongly for AVX-512.
  GraphBuilder g("net");
  std::map<std::string, std::string> contents;
  std::vector<std::vector<float>> expected;
  for (int i = 0; i < 8; ++i) {
    const auto number = static_cast<float>(1 - i % 2);
    const std::vector<float> numbers(i < 4 ? 12 : 10, number);
    const std::string name = StrCat("p", i);
    contents[name].assign(reinterpret_cast<const char*>(numbers.data()),
                          numbers.size() * sizeof(float));
    g.Param(name, DType::kF32, {static_cast<int64_t>(numbers.size())});
    expected.push_back(numbers);
    g.Output(StrCat("c", i),
             Constant(g, DType::kF32, {static_cast<int64_t>(numbers.size())},
                      std::as_bytes(std::span(numbers))));
  }
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const Result<Plan> plan =
      PlanMemory(*graph, {.alignment = kCAlignment, .device = NeedsOfC()});
  REQUIRE(plan.ok());
  const auto step = CompileToC(*graph, *plan, {.contents = contents});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  const HostLibrary library(
      "apart", {{"step.h", step->header}, {"step.c", step->source}},
      "-O2 -march=native");
  library.Get<void(uint64_t)>("step_init")(1);
  REQUIRE(library.Get<int()>("step_step")() == 0);
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    for (const std::string name : {"step_param_p", "step_output_c"}) {
      const float* const at = library.Get<const float*()>(StrCat(name, i))();
      CHECK(std::vector<float>(at, at + expected[i].size()) == expected[i]);
    }
  }
}

// gcc 12 by -O2 compiled a kernel for its one call's addresses in a static arena, and stored a
// quarter of this matmul.
TEST_CASE("kernels in a static arena store all of their results") {
  GraphBuilder g("static_arena");
  const auto numbers = [](int64_t count, int64_t step) {
    std::vector<float> result;
    for (int64_t i = 0; i < count; ++i) {
      result.push_back(static_cast<float>(i * step % 11 - 5));
    }
    return result;
  };
  const auto x = numbers(2 * 4, 3), w = numbers(8 * 4, 7);
  g.Output("y", MatMul(g.Param("x", DType::kF32, {2, 4}),
                       g.Param("w", DType::kF32, {8, 4}),
                       /*transpose_a=*/false, /*transpose_b=*/true));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const Result<Plan> plan =
      PlanMemory(*graph, {.alignment = kCAlignment, .device = NeedsOfC()});
  REQUIRE(plan.ok());
  const auto bytes_of = [](const std::vector<float>& of) {
    return std::string(reinterpret_cast<const char*>(of.data()),
                       of.size() * sizeof(float));
  };
  const auto step = CompileToC(
      *graph, *plan, {.contents = {{"x", bytes_of(x)}, {"w", bytes_of(w)}}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  for (const std::string level : {"-O1", "-Os", "-O2", "-O3"}) {
    CAPTURE(level);
    const HostLibrary library(
        "static_arena", {{"step.h", step->header}, {"step.c", step->source}},
        level);
    library.Get<void(uint64_t)>("step_init")(1);
    REQUIRE(library.Get<int()>("step_step")() == 0);
    const float* const y = library.Get<const float*()>("step_output_y")();
    for (size_t i = 0; i < 2; ++i) {
      for (size_t j = 0; j < 8; ++j) {
        float expected = 0;  // of small integers, exact in any order
        for (size_t l = 0; l < 4; ++l) expected += x[i * 4 + l] * w[j * 4 + l];
        CHECK(y[i * 8 + j] == expected);
      }
    }
  }
}

TEST_CASE(
    "constants are in read-only data, by gcc and clang without warnings") {
  for (const bool caller_arena : {false, true}) {
    const auto step = Compile({"h", "xs", "w"}, Contents(), caller_arena);
    REQUIRE_MESSAGE(step.ok(), step.error().message);
    const std::string folder = testing::EmptyFolder("constants");
    std::ofstream(folder + "/step.h") << step->header;
    std::ofstream(folder + "/step.c") << step->source;
    for (const char* const compiler : {"clang", "gcc"}) {
      OutputOf(StrCat("cd ", folder, " && ", compiler, " ", testing::kStrictC,
                      " -O1 -c step.c -o step.o"));
    }
    // "0 r frozen_0": of constants, r says read-only.
    std::istringstream symbols(
        OutputOf("nm " + folder + "/step.o | grep frozen_"));
    int constants = 0;
    for (std::string address, kind, name; symbols >> address >> kind >> name;) {
      CHECK(kind == "r");
      ++constants;
    }
    CHECK(constants == 3);
  }
}

TEST_CASE("a constant without contents is refused by name") {
  auto contents = Contents();
  contents.erase("xs");
  const auto refused = Compile({"h", "xs", "w"}, contents);
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::kInvalidArgument);
  CHECK(refused.error().message.find("param \"xs\" outside of the arena, and "
                                     "no contents") != std::string::npos);
}

TEST_CASE("a program over constants needs them where the step has them") {
  const Graph graph = LoopOverParams();
  const PlanOptions options{.alignment = kCAlignment, .device = NeedsOfC()};
  PlanOptions outside = options;
  outside.outside = {"h", "xs", "w"};
  const Result<Plan> plan = PlanMemory(graph, outside);
  const Result<Plan> other = PlanMemory(graph, options);
  REQUIRE(plan.ok());
  REQUIRE(other.ok());
  const std::vector<CProgram> same = {{"step", graph, *plan},
                                      {"evaluate", graph, *plan}};
  CHECK(CompileToC(same, {.contents = Contents()}).ok());
  const std::vector<CProgram> apart = {{"step", graph, *plan},
                                       {"evaluate", graph, *other}};
  const auto refused = CompileToC(apart, {.contents = Contents()});
  REQUIRE(!refused.ok());
  CHECK(refused.error().message.find("is at another address") !=
        std::string::npos);
}

}  // namespace
}  // namespace stowage
