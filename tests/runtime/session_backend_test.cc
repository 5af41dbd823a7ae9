// What a session needs of its backend, and refuses where it is not there.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "autodiff/train_step.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "planner/plan_memory.h"
#include "runtime/backend.h"
#include "runtime/session.h"
#include "tests/runtime/session_fixture.h"
#include "tests/support/wrapped_backend.h"

namespace stowage {
namespace {

TEST_CASE_FIXTURE(SessionFixture,
                  "an arena beyond the machine's memory is refused") {
  // More than there is anywhere: the kernel would end the process later.
  const auto block = cpu->Allocate(Bytes{1} << 50, 64);
  REQUIRE_FALSE(block.ok());
  CHECK(block.error().code == ErrorCode::kDevice);
  CHECK(block.error().message.starts_with("[memory] "));
  CHECK(block.error().message.find("takes 1.0 PiB (1125899906842624 bytes) "
                                   "and ") != std::string::npos);
  CHECK(block.error().message.find("the process would be killed") !=
        std::string::npos);
}

// A backend that keeps something of its own in the arena, and takes no other.
class KeepingBackend final : public testing::WrappedBackend {
 public:
  explicit KeepingBackend(Backend& cpu) : WrappedBackend(cpu) {}
  std::string_view name() const override { return "keeping"; }
  Bytes Reserve(const Graph&, Bytes alignment) const override {
    return 2 * alignment;
  }
  Status CheckArena(std::span<std::byte>) const override {
    return Error{ErrorCode::kInvalidArgument, "[keeping] not these bytes"};
  }
  Status CopyOut(std::span<std::byte>, const std::byte*) override {
    return Error{ErrorCode::kDevice, "[keeping] the wire is cut"};
  }
  Result<std::unique_ptr<Executable>> Bind(const Program& program) override {
    kept = program.reserve();
    return WrappedBackend::Bind(program);
  }
  std::span<std::byte> kept;
};

TEST_CASE_FIXTURE(SessionFixture,
                  "a backend finds in the arena what it asked for") {
  const Graph graph = Regression(1);
  KeepingBackend backend(*cpu);
  auto refused = Session::Create({{"p", graph, PlanOf(graph)}}, backend);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message ==
        "[session] backend \"keeping\" keeps 512 bytes beside the values of "
        "program \"p\", the plan has 0; plan with PlanOptions::reserve of this "
        "backend");

  const auto plan = PlanMemory(graph, {.device = backend.Needs()});
  REQUIRE(plan.ok());
  auto session = Session::Create({{"p", graph, *plan}}, backend);
  REQUIRE(session.ok());
  CHECK(backend.kept.size() == 512);
  CHECK(session->arena_bytes() == plan->arena_bytes());

  SUBCASE("an arena that it does not take is refused") {
    std::vector<std::byte> block(static_cast<size_t>(plan->arena_bytes()) +
                                 256);
    void* at = block.data();
    size_t room = block.size();
    auto* const base =
        static_cast<std::byte*>(std::align(256, block.size() - 256, at, room));
    const auto other = Session::Create({{"p", graph, *plan}}, backend,
                                       {.arena = {base, block.size() - 256}});
    REQUIRE_FALSE(other.ok());
    CHECK(other.error().message == "[keeping] not these bytes");
  }
  SUBCASE("a copy that fails is the error of the step and of the read") {
    session->Initialize(1);
    Runner& p = session->front();
    REQUIRE(p.Write("x", std::vector<float>{1, 2}).ok());
    REQUIRE(p.Write("y", std::vector<float>{1}).ok());
    const StepCode code = p.Step();
    CHECK(code == StepCode::kDeviceFault);
    CHECK(p.Explain(code).code == ErrorCode::kDevice);
    std::vector<float> w(2);
    CHECK(p.Read("w", &w).error().message == "[keeping] the wire is cut");
  }
}

TEST_CASE_FIXTURE(SessionFixture,
                  "a plan without the backend's scratch is refused") {
  GraphBuilder g("norm");
  Value x = g.Param("x", DType::kF32, {64, 256});
  Value c = g.Param("c", DType::kF32, {256}, Init::Ones());
  g.Output("loss", ReduceSum(LayerNorm(x, c, c)));
  const Graph graph = *g.Finish();
  const Graph step = *BuildTrainStep(graph, "loss");
  bool needs = false;
  for (const Node& node : step.nodes()) {
    needs = needs || cpu->Workspace(step, node) > 0;
  }
  REQUIRE(needs);
  CHECK(Refusal({{"p", step, *PlanMemory(step)}})
            .find("plan with PlanOptions::workspace of this backend") !=
        std::string::npos);
}

TEST_CASE_FIXTURE(SessionFixture,
                  "what the backend cannot compute is planned, and refused") {
  GraphBuilder g("foreign");
  Value x = g.Input("x", DType::kF32, {4, 8});
  const std::vector<Shape> shapes = {{4, 2}};
  g.Output("y", StandIn(std::vector{x}, DType::kF32, shapes, 100)[0]);
  const Graph graph = *g.Finish();
  CHECK(
      Refusal({{"p", graph, PlanOf(graph)}})
          .find("[cpu] stand_in of \"y\" has no kernel; a graph that holds it "
                "can be planned, not run") == 0);
}

TEST_CASE_FIXTURE(SessionFixture,
                  "scratch beyond 64 bits is an error of the plan") {
  GraphBuilder g("deep");
  Value x = g.Input("x", DType::kF32, {1, 1, 1, int64_t{1} << 56});
  g.Output("y", CausalAttention(x, x, x));
  const auto plan = PlanMemory(*g.Finish(), {.device = cpu->Needs()});
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().message ==
        "[plan] the sum of all buffers does not fit 64 bits at \"workspace of "
        "\"y\"\" of 9223372036854775807 bytes");
}

}  // namespace
}  // namespace stowage
