// Which way of attention is chosen where there are several, on a device that tells of each
// kernel how long it takes, and in which a way is right or wrong in one respect.

#include "gpu/attention_autotuner.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "gpu/gpu_backend.h"
#include "gpu/queue.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "planner/plan_memory.h"
#include "runtime/kernel.h"
#include "runtime/session.h"
#include "tests/gpu/attention_net.h"
#include "tests/gpu/fake_device.h"
#include "tests/gpu/op_check.h"
#include "tests/support/files.h"

namespace stowage::testing {
namespace {

namespace fs = std::filesystem;

using gpu::AttentionAlgorithm;
using gpu::AttentionAlgorithms;

TEST_CASE("the faster way is kept, and taken untried by the next process") {
  const std::string folder = EmptyFolder("faster");
  const Opened first = Open(folder);
  first.device->SetSeconds(kForward, 0.5e-3);
  Outputs(first);
  CHECK(IsInGraph(first, kForward));
  CHECK_FALSE(IsInGraph(first, "attention"));
  CHECK(Tried(first) ==
        "attention was tried: attention bf16(1, 5, 2, 16): by warps 1.000 ms, "
        "by warpgroups 0.500 ms");
  CHECK(fs::path(FileIn(folder))
            .filename()
            .string()
            .starts_with("attention-Fake-GPU-none-"));
  CHECK(ChoicesIn(folder) == 1);

  // What would be slower there is as it was.
  const Opened next = Open(folder);
  next.device->SetSeconds(kForward, 2e-3);
  Outputs(next);
  CHECK(IsInGraph(next, kForward));
  CHECK(Tried(next).empty());
  CHECK(next.device->calls("Time") == 0);
  CHECK(next.device->calls("Allocate") == 1);
  CHECK(ChoicesIn(folder) == 1);
}

TEST_CASE("of ways as fast, and of slower ones, products of warps are kept") {
  for (const double seconds : {0.985e-3, 1e-3, 2e-3}) {
    CAPTURE(seconds);
    const std::string folder = EmptyFolder("slower");
    const Opened opened = Open(folder);
    opened.device->SetSeconds(kForward, seconds);
    Outputs(opened);
    CHECK(IsInGraph(opened, "attention"));
    CHECK_FALSE(IsInGraph(opened, kForward));
    const Opened next = Open(folder);
    next.device->SetSeconds(kForward, 0.1e-3);
    Outputs(next);
    CHECK(IsInGraph(next, "attention"));
  }
}

TEST_CASE("attention and its gradient choose apart") {
  const Net net{.grad = true};
  const Opened forward = Open(EmptyFolder("forward"));
  forward.device->SetSeconds(kForward, 0.5e-3);
  forward.device->SetSeconds(kGradKeys, 2e-3);
  Outputs(forward, net);
  CHECK(IsInGraph(forward, kForward));
  CHECK(IsInGraph(forward, "attention grad, keys"));
  CHECK_FALSE(IsInGraph(forward, kGradKeys));
  CHECK_FALSE(IsInGraph(forward, kGradQueries));

  const Opened gradient = Open(EmptyFolder("gradient"));
  gradient.device->SetSeconds(kForward, 2e-3);
  gradient.device->SetSeconds(kGradKeys, 0.5e-3);
  Outputs(gradient, net);
  CHECK(IsInGraph(gradient, "attention"));
  CHECK_FALSE(IsInGraph(gradient, kForward));
  CHECK(IsInGraph(gradient, kGradKeys));
  CHECK(IsInGraph(gradient, kGradQueries));
  CHECK(Tried(gradient).ends_with(
      "; attention_grad bf16(1, 5, 2, 16): by warps 3.000 ms, by warpgroups "
      "2.500 ms"));
}

TEST_CASE("a way of the gradient alone is tried for the gradient alone") {
  constexpr const char* kFive = "attention grad, five products";
  const Net net{.grad = true};
  const Opened faster = Open(EmptyFolder("five"), gpu::kAllAttentionAlgorithms);
  faster.device->SetSeconds(kFive, 0.25e-3);
  Outputs(faster, net);
  CHECK(IsInGraph(faster, "attention"));
  CHECK(IsInGraph(faster, kFive));
  CHECK_FALSE(IsInGraph(faster, "attention grad, keys"));
  CHECK(Tried(faster) ==
        "attention was tried: attention bf16(1, 5, 2, 16): by warps 1.000 ms, "
        "by warpgroups 1.000 ms; attention_grad bf16(1, 5, 2, 16): by warps "
        "3.000 ms, by warpgroups 3.000 ms, by five products 1.250 ms");

  // What a mask keeps it from is not tried.
  const Opened open_mask =
      Open(EmptyFolder("five"), gpu::kAllAttentionAlgorithms);
  Outputs(open_mask, {.causal = false, .grad = true});
  CHECK(Tried(open_mask).find("five products") == std::string::npos);
}

TEST_CASE("ways are compared with products of warps, also unasked") {
  const Opened opened = Open(
      EmptyFolder("unasked"),
      {AttentionAlgorithm::kWarpgroups, AttentionAlgorithm::kFiveProducts});
  Outputs(opened, {.grad = true});
  CHECK(Tried(opened).find("attention_grad bf16(1, 5, 2, 16): by warps") !=
        std::string::npos);
  // Also where the device has one alone of those that were asked for.
  const Opened other =
      Open(EmptyFolder("unasked"),
           {AttentionAlgorithm::kWarpgroups, AttentionAlgorithm::kFiveProducts},
           {.major = 8});
  Outputs(other, {.grad = true});
  CHECK(Tried(other) ==
        "attention was tried: attention_grad bf16(1, 5, 2, 16): by warps 3.000 "
        "ms, by five products 2.000 ms");
}

TEST_CASE("of two processes that try at once, both take what the first kept") {
  const std::string folder = EmptyFolder("two");
  const Opened one = Open(folder);
  const Opened other = Open(folder);
  one.device->SetSeconds(kForward, 0.5e-3);
  other.device->SetSeconds(kForward, 2e-3);
  Outputs(one);
  Outputs(other);
  CHECK(IsInGraph(one, kForward));
  CHECK_FALSE(Tried(other).empty());
  CHECK(IsInGraph(other, kForward));
  CHECK(ChoicesIn(folder) == 1);
}

TEST_CASE("a trial that found nothing keeps nothing, and is made again") {
  struct Lack {
    const char* function;
    int64_t nth;
    const char* said;
  };
  // A trial's memory comes behind the arena; of times, the third is the first that counts.
  for (const Lack& lack :
       {Lack{"Allocate", 2, "attention bf16(1, 5, 2, 16): by warps untried: "},
        Lack{"Time", 3, "attention bf16(1, 5, 2, 16): by warps untimed: "}}) {
    CAPTURE(lack.function);
    const std::string folder = EmptyFolder("again");
    const Opened opened = Open(folder);
    opened.device->SetSeconds(kForward, 0.5e-3);
    opened.device->Fail(lack.function, lack.nth);
    const OutputBytes by_warps = Outputs(opened);
    // Once, however often the launch comes to be enqueued.
    CHECK(opened.device->calls("Allocate") == 2);
    CHECK(IsInGraph(opened, "attention"));
    CHECK_FALSE(IsInGraph(opened, kForward));
    CHECK(by_warps == Outputs(Open("", {AttentionAlgorithm::kWarps})));
    CHECK(Tried(opened).find(lack.said) != std::string::npos);
    CHECK(FileIn(folder).empty());
    // The next program of this process has room.
    Outputs(opened);
    CHECK(IsInGraph(opened, kForward));
    CHECK(ChoicesIn(folder) == 1);
  }
}

TEST_CASE(
    "a program that could not try stays as it was when another has tried") {
  FakeOptions options;
  options.backend.check = true;  // op by op, which asks for the way each time
  const Opened opened = Open(EmptyFolder("stays"), kTwoWays, options);
  opened.device->SetSeconds(kForward, 0.5e-3);
  opened.device->Fail("Allocate", 2);
  const Graph graph = GraphOf({});
  const auto plan = PlanMemory(graph, {.device = opened.backend->Needs()});
  REQUIRE(plan.ok());
  auto session = Session::Create(
      {{"untried", graph, *plan}, {"tried", graph, *plan}}, *opened.backend);
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  const auto runs = [&](const char* program, const char* kernel) {
    Runner& runner = *session->Find(program);
    const std::vector<std::byte> zeros(2 * 5 * 2 * 16);
    for (const char* leaf : {"x", "k", "v"}) {
      REQUIRE(runner.WriteBytes(leaf, DType::kBF16, zeros).ok());
    }
    REQUIRE(runner.Step() == StepCode::kOk);
    CHECK(LastAttention(opened) == kernel);
  };
  runs("tried", kForward);
  runs("untried", "attention");
}

TEST_CASE(
    "what differs in shape, mask, type, layout or alignment chooses apart") {
  const std::string folder = EmptyFolder("keys");
  const Net nets[] = {{},
                      {.batch = 2},
                      {.batch = 3},
                      {.length = 6},
                      {.heads = 1},
                      {.depth = 8},
                      {.dtype = DType::kF16},
                      {.causal = false},
                      {.window = 2},
                      {.lengths = true},
                      {.packed = true}};
  int64_t choices = 0;
  for (const Net& net : nets) {
    ++choices;
    CAPTURE(choices);
    // Twice by this process, and by the next.
    const Opened opened = Open(folder);
    Outputs(opened, net);
    CHECK(ChoicesIn(folder) == choices);
    Outputs(opened, net);
    Outputs(Open(folder), net);
    CHECK(ChoicesIn(folder) == choices);
  }
  // Of addresses that are multiples of 16 bytes and of more. Others have one way here.
  for (const int64_t offset : {8, 16, 1, 2, 4}) {
    Outputs(Open(folder), {.offset = offset});
    CHECK(ChoicesIn(folder) == choices);
  }
  // Five products take operands anywhere.
  const std::string anywhere = EmptyFolder("anywhere");
  choices = 0;
  for (const int64_t offset : {0, 1, 2, 4}) {
    Outputs(Open(anywhere, {AttentionAlgorithm::kWarps,
                            AttentionAlgorithm::kFiveProducts}),
            {.offset = offset, .grad = true});
    CHECK(ChoicesIn(anywhere) == ++choices);
  }
}

TEST_CASE(
    "one way, or what the device lacks, is not tried and leaves no file") {
  const auto check = [](AttentionAlgorithms ways, const FakeOptions& options,
                        const char* kernel) {
    const std::string folder = EmptyFolder("untried");
    const Opened opened = Open(folder, ways, options);
    opened.device->SetSeconds(kForward, 0.1e-3);
    Outputs(opened, {.grad = true});
    CHECK(IsInGraph(opened, kernel));
    CHECK(opened.device->calls("Time") == 0);
    CHECK(opened.device->calls("Allocate") == 1);
    CHECK(FileIn(folder).empty());
    CHECK(Tried(opened).empty());
  };
  check({}, {}, "attention");
  check({AttentionAlgorithm::kWarps}, {}, "attention");
  check({AttentionAlgorithm::kWarpgroups}, {}, kForward);
  check(kTwoWays, {.major = 8}, "attention");
  check({AttentionAlgorithm::kWarpgroups}, {.major = 8}, "attention");
}

TEST_CASE(
    "where a launch leaves one way, or none that is allowed, nothing is "
    "tried") {
  const std::string folder = EmptyFolder("one");
  FakeDevice device(FakeOptions{});
  const auto choose = [&](AttentionAlgorithms asked, AttentionAlgorithms ways) {
    auto autotuner =
        gpu::AttentionAutotuner::Open(asked, folder, device.traits());
    REQUIRE(autotuner.ok());
    gpu::AttentionAutotuner::Untried untried;
    const auto way = autotuner->Choose({}, ways, device, {}, &untried);
    REQUIRE(way.ok());
    CHECK(autotuner->found().empty());
    CHECK(untried.empty());
    return *way;
  };
  const AttentionAlgorithms all = kTwoWays;
  CHECK(choose(all, {AttentionAlgorithm::kWarps}) ==
        AttentionAlgorithm::kWarps);
  CHECK(choose(all, {AttentionAlgorithm::kWarpgroups}) ==
        AttentionAlgorithm::kWarpgroups);
  CHECK(choose({AttentionAlgorithm::kWarpgroups}, all) ==
        AttentionAlgorithm::kWarpgroups);
  CHECK(choose({AttentionAlgorithm::kWarpgroups},
               {AttentionAlgorithm::kWarps}) == AttentionAlgorithm::kWarps);
  CHECK(FileIn(folder).empty());
}

// That of opening a backend on such a device.
Error OpeningError(AttentionAlgorithms ways, const std::string& folder) {
  const auto backend =
      gpu::MakeGpuBackend(std::make_unique<FakeDevice>(FakeOptions{}),
                          {.attention = ways, .algorithm_folder = folder});
  REQUIRE_FALSE(backend.ok());
  return backend.error();
}

TEST_CASE("a damaged file, or none to keep in, is an error") {
  const std::string folder = EmptyFolder("damaged");
  Outputs(Open(folder));
  const std::string path = FileIn(folder);
  const std::string whole = ReadAll(path);
  std::ofstream(path, std::ios::trunc) << whole << "words\n";
  const Error damaged = OpeningError(kTwoWays, folder);
  CHECK(damaged.code == ErrorCode::kInvalidArgument);
  CHECK(damaged.message.find(
            StrCat("\"", path,
                   "\" is damaged at line 3; it says by which algorithms "
                   "attention is computed")) != std::string::npos);
  // A way that was not there to be chosen.
  REQUIRE(whole.ends_with(" 0 ;\n"));
  std::ofstream(path, std::ios::trunc)
      << whole.substr(0, whole.size() - 4) << "7 ;\n";
  const auto run = Run(Open(folder), {});
  REQUIRE_FALSE(run.ok());
  CHECK(run.error().code == ErrorCode::kInvalidArgument);
  CHECK(run.error().message.find(
            "is damaged: it has attention computed by algorithm "
            "7") != std::string::npos);
  // Nobody looks at it where nothing is chosen.
  Outputs(Open(folder, {AttentionAlgorithm::kWarps}));
  CHECK(OpeningError(kTwoWays, "")
            .message.find("[gpu] attention may be computed by 2 algorithms, "
                          "and there is no "
                          "folder to keep the choice in") == 0);
}

TEST_CASE("a run op by op takes the way that was chosen") {
  FakeOptions options;
  options.backend.check = true;
  const Opened opened = Open(EmptyFolder("checked"), kTwoWays, options);
  opened.device->SetSeconds(kForward, 0.5e-3);
  const OutputBytes outputs = Outputs(opened);
  CHECK(LastAttention(opened) == kForward);
  CHECK(outputs == Outputs(Open("", {AttentionAlgorithm::kWarpgroups})));
}

}  // namespace
}  // namespace stowage::testing
