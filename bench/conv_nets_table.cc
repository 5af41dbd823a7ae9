// Prints the largest batch of four convolutional nets that trains in 16 GB with at most one
// extra forward pass, beside Checkmate's.
//
//   bazel run -c opt //bench:conv_nets_table
//
// As in Checkmate, 16 GB are 16 * 10^9 bytes, all for the arena. The second table uses
// Checkmate's own graphs of the nets, which omit params and their gradients; these are
// subtracted from the budget. Rows end with the figures of the plan at the largest batch;
// seconds are CPU time of planning it. A batch is found by doubling from Checkmate's and
// bisecting; a plan is made for every batch tried, and validated if it fits. "At most" is an
// upper bound for plans that execute the nodes in their order
// (planner/fit/recompute/chain.h). The nets are described in tests/planner/fit/conv_nets.h.

#include <cstdint>
#include <cstdio>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "base/bytes.h"
#include "base/result.h"
#include "cpu/cpu_backend.h"
#include "ir/graph.h"
#include "nn/model_options.h"
#include "nn/models.h"
#include "planner/fit/fit.h"
#include "planner/plan_memory.h"
#include "planner/validate_plan.h"
#include "tests/planner/fit/conv_nets.h"

namespace {

using stowage::Bytes;
using stowage::DeviceNeeds;
using stowage::Graph;
using stowage::ImageShape;
using stowage::fit::ConvNet;

constexpr Bytes kBudget = 16'000'000'000;

// The largest batch from 1 on that fits, if those below it do.
template <typename Fits>
int64_t Largest(int64_t guess, const Fits& fits) {
  int64_t low = 0;
  int64_t high = guess;
  while (fits(high)) {
    low = high;
    high *= 2;
  }
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

struct Row {
  Bytes arena = 0;
  double forward_percent = 0;  // extra operations, of a forward pass
  double least_percent = 0;    // what no plan for the budget goes below
  int again = 0;
  double seconds = 0;
};

// Nothing when it takes more than a forward pass.
std::optional<Row> PlanStep(const Graph& step, Bytes budget,
                            const DeviceNeeds& device) {
  const double forward = stowage::fit::ForwardFlops(step);
  const std::clock_t start = std::clock();
  stowage::StepFitter fitter(
      stowage::OfGraph(step),
      {.plan = {.device = device},
       .optimizations = {.offload = stowage::OffloadChoice::kNone}});
  const auto made = fitter.Fit(budget);
  const double seconds =
      static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  if (!made.ok() || made->price.extra_flops > forward) return std::nullopt;
  STOWAGE_CHECK(stowage::ValidatePlan(made->graph, made->plan).empty());
  return Row{made->plan.arena_bytes(), 100 * made->price.extra_flops / forward,
             100 * made->price.least_extra_cost / forward,
             made->price.recomputed_nodes, seconds};
}

void PrintRow(const char* name, const std::function<Graph(int64_t batch)>& step,
              Bytes budget, int64_t checkmate_batch,
              const DeviceNeeds& device = {}) {
  const int64_t as_given = Largest(checkmate_batch, [&](int64_t batch) {
    return stowage::PlanMemory(step(batch),
                               {.budget = budget, .device = device})
        .ok();
  });
  std::optional<Row> row;
  const int64_t largest = Largest(checkmate_batch, [&](int64_t batch) {
    std::optional<Row> planned = PlanStep(step(batch), budget, device);
    if (planned) row = planned;
    return planned.has_value();
  });
  STOWAGE_CHECK(row.has_value());
  const int64_t at_most = Largest(largest, [&](int64_t batch) {
    return stowage::fit::MayFitForOneForward(step(batch), budget);
  });
  std::printf("%-10s %9lld %9lld %9lld %9lld %14lld %8.2f %8.2f %6d %8.2f\n",
              name, static_cast<long long>(as_given),
              static_cast<long long>(checkmate_batch),
              static_cast<long long>(largest), static_cast<long long>(at_most),
              static_cast<long long>(row->arena), row->forward_percent,
              row->least_percent, row->again, row->seconds);
  std::fflush(stdout);
}

// Of params and batch norms' averages.
Bytes WeightBytes(const Graph& step) {
  Bytes bytes = 0;
  for (const stowage::ValueInfo& info : step.values()) {
    const bool is_average = info.name.find(".running_") != std::string::npos;
    if (info.role != stowage::Role::kParam && !is_average) continue;
    if (info.is_leaf()) bytes += info.type.bytes();
  }
  return bytes;
}

// The step of a built-in net, by SGD with momentum.
std::function<Graph(int64_t batch)> BuiltIn(const char* name,
                                            const ImageShape& images) {
  return [=](int64_t batch) {
    const auto model = stowage::BuildModel(name, stowage::ModelPurpose::kTrain,
                                           {.batch = batch, .images = images});
    STOWAGE_CHECK(model.ok());
    auto step = stowage::BuildTrainStep(
        *model, "loss", {.optimizer = stowage::Momentum{.momentum = 0.9}});
    STOWAGE_CHECK(step.ok());
    return *std::move(step);
  };
}

void PrintHead(const char* what) {
  std::printf("%s\n%-10s %9s %9s %9s %9s %14s %8s %8s %6s %8s\n", what, "net",
              "as given", "Checkmate", "ours", "at most", "arena", "extra %",
              "least %", "again", "seconds");
}

}  // namespace

int main() {
  PrintHead("training steps");
  for (const ConvNet& net : stowage::fit::ConvNets()) {
    PrintRow(net.name, net.step, kBudget, net.checkmate_batch);
  }
  PrintHead("Checkmate's graphs");
  for (const ConvNet& net : stowage::fit::ConvNets()) {
    PrintRow(net.name, net.checkmate_step,
             kBudget - 2 * WeightBytes(net.step(1)), net.checkmate_batch);
  }
  PrintHead("built-in nets");
  const auto cpu = stowage::MakeCpuBackend({.threads = 2});
  const ImageShape image_net = {3, 224, 224, 1000};
  PrintRow("vgg19", BuiltIn("vgg19", image_net), kBudget, 289, cpu->Needs());
  PrintRow("unet", BuiltIn("unet", {3, 416, 608, 19}), kBudget, 57,
           cpu->Needs());
  PrintRow("resnet50", BuiltIn("resnet50", image_net), kBudget, 193,
           cpu->Needs());
  PrintRow("mobilenet", BuiltIn("mobilenet-v2", image_net), kBudget, 1105,
           cpu->Needs());
  return 0;
}
