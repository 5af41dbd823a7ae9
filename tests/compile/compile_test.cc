// What CompileToC promises of its files, and what it refuses.

#include "compile/compile.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "nn/models.h"
#include "planner/plan_memory.h"
#include "tests/compile/host_library.h"
#include "tests/support/files.h"

namespace stowage {
namespace {

using testing::ArenaInC;
using testing::GraphInC;
using testing::HostLibrary;
using testing::OutputOf;

Graph StepOf(const std::string& model, const ModelOptions& options) {
  const Result<Graph> forward =
      BuildModel(model, ModelPurpose::kTrain, options);
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  const Result<Graph> step =
      BuildTrainStep(*forward, "loss", {.optimizer = AdamW{}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return *step;
}

Plan PlanOf(const Graph& graph, int simd = 0) {
  const Result<Plan> plan =
      PlanMemory(graph, {.alignment = kCAlignment, .device = NeedsOfC(simd)});
  REQUIRE(plan.ok());
  return *plan;
}

CompiledStep Compile(const Graph& graph, const CompileOptions& options = {}) {
  const Result<CompiledStep> compiled =
      CompileToC(graph, PlanOf(graph, options.simd), options);
  REQUIRE_MESSAGE(compiled.ok(), compiled.error().message);
  return *compiled;
}

// A folder with step.h and step.c.
std::string FolderOf(const CompiledStep& step, const std::string& name) {
  const std::string folder = testing::EmptyFolder(name);
  std::ofstream(folder + "/step.h") << step.header;
  std::ofstream(folder + "/step.c") << step.source;
  return folder;
}

// The bytes of .bss of an object, by size.
Bytes BssOf(const std::string& object) {
  std::istringstream words(OutputOf("size " + object + " | tail -1"));
  Bytes text = 0, data = 0, bss = 0;
  words >> text >> data >> bss;
  return bss;
}

TEST_CASE("models compile without a warning by gcc and clang") {
  for (const auto& net :
       {std::pair<std::string, ModelOptions>{"mlp", {.batch = 4}},
        {"cnn-small", {.batch = 2}},
        {"lstm-char", {.batch = 2, .seq = 8}},
        {"gpt-nano", {.batch = 2, .seq = 8}},
        {"llama-nano", {.batch = 2, .seq = 8}},
        {"vit-tiny", {.batch = 2}},
        {"resnet18", {.batch = 2, .images = ImageShape{3, 32, 32, 10}}}}) {
    const std::string& model = net.first;
    const ModelOptions& options = net.second;
    CAPTURE(model);
    for (const int simd : {0, 16}) {
      CAPTURE(simd);
      const std::string folder =
          FolderOf(Compile(StepOf(model, options), {.simd = simd}),
                   StrCat("strict_", model, "_", simd));
      for (const char* const compiler : {"gcc", "clang"}) {
        OutputOf(StrCat("cd ", folder, " && ", compiler, " ", testing::kStrictC,
                        compiler == std::string("gcc")
                            ? " -O1 -c step.c"
                            : " -fsyntax-only step.c"));
      }
    }
  }
}

TEST_CASE(
    "an object needs the arena, the math that its header names, no heap") {
  const CompiledStep step = Compile(StepOf("cnn-small", {.batch = 2}));
  const std::string folder = FolderOf(step, "object");
  OutputOf("cd " + folder + " && gcc -std=c11 -O2 -c step.c -o step.o");
  CHECK(BssOf(folder + "/step.o") == step.arena);
  std::istringstream symbols(OutputOf("nm -u " + folder + "/step.o"));
  for (std::string kind, name; symbols >> kind >> name;) {
    CAPTURE(name);
    // What compilers call by themselves, and the functions of the header.
    const bool is_memory = name == "memcpy" || name == "memset" ||
                           name == "memcmp" || name == "__stack_chk_fail" ||
                           name == "_GLOBAL_OFFSET_TABLE_";
    const bool is_named =
        step.header.find(" " + name + ",") != std::string::npos ||
        step.header.find(" " + name + ".") != std::string::npos;
    CHECK((is_memory || is_named));
  }
}

// The stack of step.c's step and of the kernel that needs most.
Bytes StackOf(const std::string& folder, const std::string& flags) {
  OutputOf(StrCat("cd ", folder, " && gcc -std=c11 ", flags,
                  " -fstack-usage -c step.c -o step.o"));
  // step.c:12:5:matmul_1  352  static
  std::ifstream usage(folder + "/step.su");
  Bytes step_bytes = 0, most = 0;
  for (std::string place, kind; usage >> place;) {
    Bytes bytes = 0;
    usage >> bytes >> kind;
    CHECK((kind == "static" || kind == "dynamic,bounded"));
    (place.ends_with(":step_step") ? step_bytes : most) =
        place.ends_with(":step_step") ? bytes : std::max(most, bytes);
  }
  CHECK(most > 0);
  return step_bytes + most;
}

TEST_CASE("no function needs more of the stack than the header says") {
  for (const auto& net :
       {std::pair<std::string, ModelOptions>{"cnn-small", {.batch = 2}},
        {"gpt-nano", {.batch = 2, .seq = 8}},
        {"lstm-char", {.batch = 1, .seq = 1}}}) {
    const std::string& model = net.first;
    const ModelOptions& options = net.second;
    CAPTURE(model);
    const CompiledStep step = Compile(StepOf(model, options));
    const std::string folder = FolderOf(step, "stack_" + model);
    for (const char* const level : {"-O0", "-Os", "-O2"}) {
      CAPTURE(level);
      // Step, a kernel, and a helper that is no larger than 256 bytes.
      CHECK(StackOf(folder, level) + 256 <= step.stack);
    }
  }
}

TEST_CASE("nor if vectors are compiled with optimization") {
  for (const int simd : {16, 32, 64}) {
    const CompiledStep step =
        Compile(StepOf("gpt-nano", {.batch = 2, .seq = 8}), {.simd = simd});
    const std::string folder = FolderOf(step, StrCat("stack_of_", simd));
    for (const char* const flags : {"-Os", "-O2", "-O2 -march=native"}) {
      CAPTURE(simd);
      CAPTURE(flags);
      CHECK(StackOf(folder, flags) + 256 <= step.stack);
    }
  }
}

TEST_CASE("a source refuses the header of another step") {
  const CompiledStep step = Compile(StepOf("mlp", {.batch = 2}));
  const CompiledStep other = Compile(StepOf("mlp", {.batch = 3}));
  CompiledStep mixed = step;
  mixed.header = other.header;
  const std::string folder = FolderOf(mixed, "mixed");
  const std::string compile = " && gcc -std=c11 -c step.c -o step.o";
  CHECK(OutputOf("cd " + folder + compile + " 2>&1 || true")
            .find("step.h is of another step") != std::string::npos);
  OutputOf("cd " + FolderOf(step, "paired") + compile);
}

TEST_CASE("a C++ application links with a step") {
  const CompiledStep step = Compile(StepOf("mlp", {.batch = 2}));
  const std::string folder = FolderOf(step, "cplusplus");
  std::ofstream(folder + "/main.cc") << "#include \"step.h\"\nint main() { "
                                        "step_init(1); return step_step(); }\n";
  OutputOf("cd " + folder +
           " && gcc -std=c11 -c step.c -o step.o && g++ main.cc step.o -o main "
           "-lm && ./main");
}

TEST_CASE("sums of many numbers are exact to rounding") {
  constexpr int64_t kCount = 300'000, kRows = 60'000;
  GraphBuilder g("sums");
  const Value x = g.Input("x", DType::kF32, {kCount});
  const Value logits = g.Input("logits", DType::kF32, {kRows, 2});
  const Value labels = g.Input("labels", DType::kI32, {kRows});
  g.Output("sum", ReduceSum(x, {0}));
  g.Output("mean", ReduceMean(x, {0}));
  g.Output("squares", SumSquares(x));
  g.Output("loss", CrossEntropy(logits, labels));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  std::vector<double> numbers, all_logits, all_labels;
  double sum = 0, squares = 0, loss = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    const double number = static_cast<float>(i * 7919 % 1000) / 1024.0 + 0.125;
    numbers.push_back(number);
    sum += number;
    squares += number * number;
  }
  for (int64_t i = 0; i < kRows; ++i) {
    const double a = static_cast<double>(i * 31 % 64) / 16 - 2;
    all_logits.insert(all_logits.end(), {a, 0.5});
    all_labels.push_back(static_cast<double>(i % 2));
    const double log_sum_exp = std::log(std::exp(a) + std::exp(0.5));
    loss += (log_sum_exp - (i % 2 == 0 ? a : 0.5)) / kRows;
  }
  const std::map<std::string, double> expected = {{"sum", sum},
                                                  {"mean", sum / kCount},
                                                  {"squares", squares},
                                                  {"loss", loss}};
  for (const int simd : {0, 16, 64}) {
    const GraphInC c = GraphInC::Make(*graph, "sums", {}, simd);
    const HostLibrary library("sums", c.files, "-O2");
    ArenaInC arena(c);
    arena.Write("x", numbers);
    arena.Write("logits", all_logits);
    arena.Write("labels", all_labels);
    REQUIRE(library.Get<int(uint8_t*)>("sums_step")(arena.data()) == 0);
    for (const auto& each : expected) {
      CAPTURE(each.first);
      CAPTURE(simd);
      CHECK(arena.Read(each.first).at(0) ==
            doctest::Approx(each.second).epsilon(1e-6));
    }
  }
}

TEST_CASE("nodes of one kind share a function") {
  const CompiledStep step = Compile(StepOf("gpt-nano", {.batch = 2, .seq = 8}));
  CHECK(step.kernels * 2 < step.launches);
  CHECK(step.source.find("attention_2(") == std::string::npos);
}

TEST_CASE("what was saved is loaded, into steps with the same params alone") {
  const GraphInC c = GraphInC::Make(StepOf("mlp", {.batch = 2}), "mlp");
  const GraphInC larger = GraphInC::Make(StepOf("mlp", {.batch = 3}), "larger");
  const GraphInC other =
      GraphInC::Make(StepOf("cnn-small", {.batch = 2}), "other");
  auto files = c.files;
  files.insert(larger.files.begin(), larger.files.end());
  files.insert(other.files.begin(), other.files.end());
  const HostLibrary library("save", files);
  ArenaInC first(c), second(c), third(other), fourth(larger);
  library.Get<void(uint8_t*, uint64_t)>("mlp_init")(first.data(), 1);
  Bytes size = 8;
  for (const Role role : {Role::kParam, Role::kState}) {
    for (const ValueId id : c.graph.Leaves(role)) {
      size += c.graph.value(id).type.bytes();
    }
  }
  CHECK(c.files.at("mlp.h").find(StrCat("MLP_SAVED_BYTES ", size, "\n")) !=
        std::string::npos);
  std::vector<uint8_t> saved(static_cast<size_t>(size));
  library.Get<void(const uint8_t*, uint8_t*)>("mlp_save")(first.data(),
                                                          saved.data());
  auto* const load = library.Get<int(uint8_t*, const uint8_t*)>("mlp_load");
  CHECK(load(second.data(), saved.data()) == 0);
  CHECK(second.Read("fc1.weight") == first.Read("fc1.weight"));
  auto* const load_other =
      library.Get<int(uint8_t*, const uint8_t*)>("other_load");
  CHECK(load_other(third.data(), saved.data()) == 3);
  auto* const load_larger =
      library.Get<int(uint8_t*, const uint8_t*)>("larger_load");
  CHECK(load_larger(fourth.data(), saved.data()) == 0);
  CHECK(fourth.Read("fc1.weight") == first.Read("fc1.weight"));
}

TEST_CASE("what was saved is not loaded into params of other names") {
  const auto of_param = [](const std::string& name) {
    GraphBuilder g("named");
    g.Output("y", MulScalar(g.Param(name, DType::kF32, {4}), 2));
    return GraphInC::Make(*g.Finish(), name);
  };
  const GraphInC weight = of_param("weight"), scale = of_param("scale");
  auto files = weight.files;
  files.insert(scale.files.begin(), scale.files.end());
  const HostLibrary library("named", files);
  ArenaInC from(weight), to(scale);
  std::vector<uint8_t> saved(8 + 4 * sizeof(float));
  library.Get<void(const uint8_t*, uint8_t*)>("weight_save")(from.data(),
                                                             saved.data());
  const auto load = [&](const std::string& name, ArenaInC& arena) {
    return library.Get<int(uint8_t*, const uint8_t*)>(name + "_load")(
        arena.data(), saved.data());
  };
  CHECK(load("weight", from) == 0);
  CHECK(load("scale", to) == 3);
}

TEST_CASE(
    "an evaluation in the same file reads the params that the step trains") {
  const Graph step = StepOf("mlp", {.batch = 4});
  const Plan plan = PlanOf(step);
  const Graph evaluation =
      *BuildModel("mlp", ModelPurpose::kEvaluate, {.batch = 4});
  const Result<Plan> planned =
      PlanMemory(evaluation, {.alignment = kCAlignment,
                              .weights = WeightLayout::FromForward(step, plan),
                              .device = NeedsOfC()});
  REQUIRE(planned.ok());
  const std::vector<CProgram> programs = {{"step", step, plan},
                                          {"evaluate", evaluation, *planned}};
  const Result<CompiledStep> compiled = CompileToC(programs, {.prefix = "mlp"});
  REQUIRE_MESSAGE(compiled.ok(), compiled.error().message);
  CHECK(compiled->arena ==
        std::max(plan.arena_bytes(), planned->arena_bytes()));
  const HostLibrary library(
      "evaluate", {{"step.h", compiled->header}, {"step.c", compiled->source}});
  library.Get<void(uint64_t)>("mlp_init")(7);
  const auto fill = [&](const std::string& program) {
    auto* const x = library.Get<float*()>(program + "_input_x")();
    for (int i = 0; i < 4 * 64; ++i) {
      x[i] = static_cast<float>(i * 37 % 64) / 64;
    }
    for (int i = 0; i < 4; ++i) {
      library.Get<int32_t*()>(program + "_input_y")()[i] = i;
    }
  };
  const auto evaluate = [&] {
    fill("mlp_evaluate");
    CHECK(library.Get<int()>("mlp_evaluate")() == 0);
    return *library.Get<const float*()>("mlp_evaluate_output_loss")();
  };
  const float before = evaluate();
  for (int64_t i = 1; i <= 10; ++i) {
    fill("mlp");
    *library.Get<float*()>("mlp_input_lr")() = 0.01f;
    *library.Get<int64_t*()>("mlp_input_step")() = i;
    CHECK(library.Get<int()>("mlp_step")() == 0);
    const float loss = *library.Get<const float*()>("mlp_output_loss")();
    if (i == 1) CHECK(loss == doctest::Approx(before).epsilon(1e-6));
  }
  CHECK(evaluate() < before);

  // A program of another model.
  GraphBuilder b("other");
  b.Output("y", Neg(b.Param("w", DType::kF32, {2})));
  const Graph stranger = *b.Finish();
  const Plan elsewhere = PlanOf(stranger);
  const std::vector<CProgram> strangers = {{"step", step, plan},
                                           {"other", stranger, elsewhere}};
  const auto refused = CompileToC(strangers);
  REQUIRE(!refused.ok());
  CHECK(refused.error().message.find("no param of the step") !=
        std::string::npos);
}

TEST_CASE("params begin with the contents that are given") {
  GraphBuilder b("net");
  const Value w = b.Param("w", DType::kF32, {2, 1}, Init::Orthogonal());
  b.Output("y", Neg(w));
  const Graph graph = *b.Finish();
  const float numbers[] = {1.5f, -2.0f};
  const std::string bytes(reinterpret_cast<const char*>(numbers), 8);
  const CompiledStep step = Compile(graph, {.contents = {{"w", bytes}}});
  const HostLibrary library("contents",
                            {{"step.h", step.header}, {"step.c", step.source}});
  library.Get<void(uint64_t)>("step_init")(1);
  CHECK(library.Get<int()>("step_step")() == 0);
  const float* const y = library.Get<const float*()>("step_output_y")();
  CHECK(y[0] == -1.5f);
  CHECK(y[1] == 2.0f);
  CHECK(!CompileToC(graph, PlanOf(graph),
                    {.contents = {{"w", bytes}, {"v", bytes}}})
             .ok());
  CHECK(!CompileToC(graph, PlanOf(graph), {.contents = {{"w", "short"}}}).ok());
}

TEST_CASE("a label out of range and an infinite loss return their codes") {
  const GraphInC c = GraphInC::Make(StepOf("mlp", {.batch = 2}), "mlp");
  const HostLibrary library("codes", c.files);
  ArenaInC arena(c);
  library.Get<void(uint8_t*, uint64_t)>("mlp_init")(arena.data(), 1);
  auto* const step = library.Get<int(uint8_t*)>("mlp_step");
  arena.Write("x", std::vector<double>(2 * 64, 0.5));
  arena.Write("lr", {0.1});
  arena.Write("step", {1});
  arena.Write("y", {3, 10});
  CHECK(step(arena.data()) == 1);
  arena.Write("y", {3, -1});
  CHECK(step(arena.data()) == 1);
  arena.Write("y", {3, 9});
  CHECK(step(arena.data()) == 0);
  arena.Write("x", std::vector<double>(2 * 64, 1e38));
  CHECK(step(arena.data()) == 2);
}

TEST_CASE("a step in vectors gives the same bits on every run") {
  const GraphInC c = GraphInC::Make(StepOf("gpt-nano", {.batch = 2, .seq = 9}),
                                    "gpt", {}, /*simd=*/32);
  const HostLibrary library("vectors", c.files, "-O2");
  const auto run = [&] {
    ArenaInC arena(c);
    library.Get<void(uint8_t*, uint64_t)>("gpt_init")(arena.data(), 1);
    arena.Write("tokens", std::vector<double>(2 * 9, 5));
    arena.Write("targets", std::vector<double>(2 * 9, 7));
    arena.Write("lr", {0.01});
    std::vector<double> losses;
    for (int i = 1; i <= 3; ++i) {
      arena.Write("step", {static_cast<double>(i)});
      CHECK(library.Get<int(uint8_t*)>("gpt_step")(arena.data()) == 0);
      losses.push_back(arena.Read("loss").at(0));
    }
    return losses;
  };
  const std::vector<double> first = run();
  CHECK(first[2] < first[0]);
  CHECK(run() == first);
}

// --- Refusals ---

TEST_CASE("vectors of other sizes are refused, and plans without workspace") {
  const Graph step = StepOf("gpt-nano", {.batch = 1, .seq = 8});
  for (const int simd : {-16, 8, 24, 128}) {
    const auto compiled = CompileToC(step, PlanOf(step), {.simd = simd});
    REQUIRE(!compiled.ok());
    CHECK(compiled.error().message == StrCat("[compile] the vectors have ",
                                             simd,
                                             " bytes; expected 16, 32 or 64"));
  }
  // Vectors need more than scalars.
  const auto compiled = CompileToC(step, PlanOf(step), {.simd = 64});
  REQUIRE(!compiled.ok());
  CHECK(compiled.error().message.find("plan with NeedsOfC(64)") !=
        std::string::npos);
}

TEST_CASE("all that cannot be written is named in one message") {
  GraphBuilder b("net");
  const Value x = b.Param("x", DType::kF32, {4, 4}, Init::Orthogonal());
  b.Output("a", AllReduce(x, 2));
  b.Output("b", ReduceScatter(x, 2));
  const Result<Graph> graph = b.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const Result<CompiledStep> compiled = CompileToC(*graph, PlanOf(*graph));
  REQUIRE(!compiled.ok());
  CHECK(compiled.error().code == ErrorCode::kInvalidArgument);
  const std::string& message = compiled.error().message;
  CHECK(message.starts_with("[compile] not available in C: "));
  for (const char* const part :
       {"orthogonal initial values (1: \"x\")",
        "all_reduce (1: ", "reduce_scatter (1: ", "docs/guides/embedded.md"}) {
    CHECK_MESSAGE(message.find(part) != std::string::npos, message);
  }
}

TEST_CASE(
    "a prefix that is no identifier and another graph's plan are refused") {
  const Graph step = StepOf("mlp", {.batch = 2});
  for (const char* const prefix : {"", "2nd", "a-b", "a b", "\xC3\xA9"}) {
    const auto compiled = CompileToC(step, PlanOf(step), {.prefix = prefix});
    REQUIRE(!compiled.ok());
    CHECK(compiled.error().message.find("C identifier") != std::string::npos);
  }
  const Graph other = StepOf("mlp", {.batch = 3});
  CHECK(!CompileToC(step, PlanOf(other)).ok());
}

TEST_CASE("a plan without the scratch memory of C is refused") {
  const Graph step = StepOf("gpt-nano", {.batch = 1, .seq = 8});
  const Result<Plan> plan = PlanMemory(step);
  REQUIRE(plan.ok());
  const auto compiled = CompileToC(step, *plan);
  REQUIRE(!compiled.ok());
  CHECK(compiled.error().message.find("0 bytes of scratch memory") !=
        std::string::npos);
}

TEST_CASE("names that are no identifiers, or end a comment, do no harm") {
  GraphBuilder b("net */ int oops; /*");
  const Value x = b.Input("a.b*/c", DType::kF32, {2});
  const Value y = b.Input("a-b*/c", DType::kF32, {2});
  b.Output("o\\", Add(x, y));
  const Result<Graph> graph = b.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const CompiledStep step = Compile(*graph);
  CHECK(step.header.find("step_input_a_b__c(void)") != std::string::npos);
  CHECK(step.header.find("step_input_a_b__c_2(void)") != std::string::npos);
  const std::string folder = FolderOf(step, "names");
  OutputOf(StrCat("cd ", folder, " && gcc ", testing::kStrictC,
                  " -c step.c -o step.o"));
}

}  // namespace
}  // namespace stowage
