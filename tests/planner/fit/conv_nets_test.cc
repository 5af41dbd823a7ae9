#include "tests/planner/fit/conv_nets.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "ir/layout.h"
#include "planner/fit/fit.h"
#include "planner/plan_memory.h"
#include "planner/validate_plan.h"
#include "tests/support/instances.h"

namespace stowage::fit {
namespace {

using testing::Instances;
using testing::TakesAllInstances;

// What runs again is all that is chosen.
StepFitter FitterOf(const Graph& step) {
  return StepFitter(OfGraph(step),
                    {.optimizations = {.offload = OffloadChoice::kNone}});
}

const ConvNet& Net(std::string_view name) {
  for (const ConvNet& net : ConvNets()) {
    if (net.name == name) return net;
  }
  FAIL("there is no net ", std::string(name));
  return ConvNets()[0];
}

// Elements of the params, and of the moving averages of batch norms.
struct Counts {
  int64_t params = 0;
  int64_t averages = 0;
};

Counts Count(const Graph& step) {
  Counts counts;
  for (const ValueInfo& info : step.values()) {
    if (!info.is_leaf()) continue;
    const int64_t elements = info.type.shape.num_elements();
    if (info.role == Role::kParam) counts.params += elements;
    if (info.name.find(".running_") != std::string::npos) {
      counts.averages += elements;
    }
  }
  return counts;
}

TEST_CASE("the nets have as many params as the published ones") {
  // Keras's figures: all, and those that are trained.
  CHECK(Count(Net("VGG19").step(1)).params == 143'667'240);
  const Counts resnet = Count(Net("ResNet-50").step(1));
  CHECK(resnet.params == 25'583'592);
  CHECK(resnet.params + resnet.averages == 25'636'712);
  const Counts mobile = Count(Net("MobileNet").step(1));
  CHECK(mobile.params == 4'231'976);
  CHECK(mobile.params + mobile.averages == 4'253'864);
  // VGG16's convolutions (14,714,688) less those of its last block, then the
  // decoder's, batch norms of 512, 256, 128 and 64 channels, 19 classes.
  const int64_t encoder = 14'714'688 - 3 * (9 * 512 + 1) * 512;
  const int64_t decoder = (9 * 512 + 1) * 512 + (9 * 768 + 1) * 256 +
                          (9 * 384 + 1) * 128 + (9 * 192 + 1) * 64 +
                          (9 * 64 + 1) * 19;
  const Counts unet = Count(Net("U-Net").step(1));
  CHECK(unet.params == encoder + decoder + 2 * (512 + 256 + 128 + 64));
  CHECK(unet.averages == 2 * (512 + 256 + 128 + 64));
}

// Operations of the phase's products: matrix products, convolutions and their
// gradients.
double ProductFlops(const Graph& step, Phase phase) {
  double flops = 0;
  for (const Node& node : step.nodes()) {
    if (node.phase != phase) continue;
    switch (node.op) {
      case OpKind::kMatMul:
      case OpKind::kConv:
      case OpKind::kConvTranspose:
      case OpKind::kConvWeightGrad:
        flops += NodeFlops(step, node);
        break;
      default:
        break;
    }
  }
  return flops;
}

TEST_CASE("the nets cost what their papers say") {
  // Multiply-adds an image: He et al. 2016 (VGG-19: 19.6 billion, ResNet-50: 3.8
  // billion), Howard et al. 2017 (569 million).
  const auto macs = [](const char* name) {
    return ProductFlops(Net(name).step(1), Phase::kForward) / 2;
  };
  CHECK(macs("VGG19") == doctest::Approx(19.6e9).epsilon(0.003));
  CHECK(macs("ResNet-50") == doctest::Approx(3.8e9).epsilon(0.02));
  CHECK(macs("MobileNet") == doctest::Approx(569e6).epsilon(0.003));
}

TEST_CASE("backward costs twice forward, less the gradient of the images") {
  for (const ConvNet& net : ConvNets()) {
    INFO(net.name);
    const Graph step = net.step(3);
    // Every net begins with a convolution.
    double first = 0;
    for (const Node& node : step.nodes()) {
      if (node.op != OpKind::kConv) continue;
      first = NodeFlops(step, node);
      break;
    }
    const double forward = ProductFlops(step, Phase::kForward);
    CHECK(ProductFlops(step, Phase::kBackward) ==
          doctest::Approx(2 * forward - first).epsilon(1e-12));
  }
}

// But for what a batch norm does with a channel's statistics.
TEST_CASE("a batch costs as many times more as it is larger") {
  for (const ConvNet& net : ConvNets()) {
    INFO(net.name);
    CHECK(ForwardFlops(net.step(8)) ==
          doctest::Approx(8 * ForwardFlops(net.step(1))).epsilon(1e-4));
  }
}

// The first is a chain, the second has connections that skip much of it; a fitter
// does nothing else with the others.
std::vector<ConvNet> NetsToFit() {
  const auto all = ConvNets();
  return Instances(std::vector<ConvNet>(all.begin(), all.end()), 2);
}

TEST_CASE("each net fits three quarters of its activations, and validates") {
  for (const ConvNet& net : NetsToFit()) {
    INFO(net.name);
    const Graph step = net.step(16);
    const auto given = PlanMemory(step);
    REQUIRE(given.ok());
    const Bytes span = given->regions.span();
    const Bytes budget = given->arena_bytes() - span / 4;
    const auto made = FitterOf(step).Fit(budget);
    REQUIRE_MESSAGE(made.ok(), made.error().message);
    CHECK(made->plan.arena_bytes() <= budget);
    CHECK(made->price.recomputed_nodes > 0);
    CHECK(made->price.least_extra_cost <= made->price.extra_cost);
    CHECK(made->price.extra_flops <= 0.1 * ForwardFlops(step));
    const auto broken = ValidatePlan(made->graph, made->plan);
    CHECK_MESSAGE(broken.empty(), broken.front());
  }
}

TEST_CASE("of 51 budgets a larger one never costs a net more") {
  for (const ConvNet& net : NetsToFit()) {
    INFO(net.name);
    const Graph step = net.step(16);
    const Bytes given = PlanMemory(step)->arena_bytes();
    StepFitter fitter = FitterOf(step);
    const Bytes smallest = *fitter.SmallestBudget();
    CHECK(smallest < given);
    double last = std::numeric_limits<double>::infinity();
    const int steps = Instances(50);
    for (int k = 0; k <= steps; ++k) {
      const Bytes budget = smallest + (given - smallest) * k / steps;
      const auto made = fitter.Fit(budget);
      REQUIRE_MESSAGE(made.ok(), made.error().message);
      CHECK(made->plan.arena_bytes() <= budget);
      CHECK(made->price.extra_cost <= last);
      CHECK(made->price.least_extra_cost <=
            made->price.extra_cost * (1 + 1e-9));
      last = made->price.extra_cost;
    }
    CHECK(last == 0);
    CHECK_FALSE(fitter.Fit(smallest - 1).ok());
  }
}

// Checkmate keeps params and their gradients all the time.
Bytes CheckmateBudget(const ConvNet& net) {
  const Counts counts = Count(net.step(1));
  return 16'000'000'000 - 2 * 4 * (counts.params + counts.averages);
}

TEST_CASE("on Checkmate's own graphs its batches fit too" *
          doctest::skip(!TakesAllInstances())) {
  for (const ConvNet& net : ConvNets()) {
    INFO(net.name);
    const Bytes budget = CheckmateBudget(net);
    const Graph step = net.checkmate_step(net.checkmate_batch);
    const auto made = FitterOf(step).Fit(budget);
    REQUIRE_MESSAGE(made.ok(), made.error().message);
    CHECK(made->plan.arena_bytes() <= budget);
    CHECK(made->price.extra_flops <= ForwardFlops(step));
  }
  // Which Checkmate proves to be the largest, and so does the bound.
  const ConvNet& vgg = Net("VGG19");
  CHECK_FALSE(
      MayFitForOneForward(vgg.checkmate_step(290), CheckmateBudget(vgg)));
}

TEST_CASE("a card of 16 GB holds the batches that docs/benchmarks.md lists" *
          doctest::skip(!TakesAllInstances())) {
  struct Row {
    const char* net;
    int64_t batch;
  };
  constexpr Bytes kBudget = 16'000'000'000;
  for (const Row& row : {Row{"VGG19", 503}, Row{"U-Net", 103},
                         Row{"ResNet-50", 828}, Row{"MobileNet", 1850}}) {
    INFO(row.net);
    const Graph step = Net(row.net).step(row.batch);
    const auto made = FitterOf(step).Fit(kBudget);
    REQUIRE_MESSAGE(made.ok(), made.error().message);
    CHECK(made->price.extra_flops <= ForwardFlops(step));
    const auto broken = ValidatePlan(made->graph, made->plan);
    CHECK_MESSAGE(broken.empty(), broken.front());
  }
  // No plan that runs the nodes in their order holds more of this one.
  CHECK_FALSE(MayFitForOneForward(Net("VGG19").step(504), kBudget));
}

}  // namespace
}  // namespace stowage::fit
