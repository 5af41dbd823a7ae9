#include "train/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "autodiff/backward.h"
#include "autodiff/train_step.h"
#include "base/result.h"
#include "base/strings.h"
#include "planner/plan_memory.h"

namespace stowage {
namespace {

std::vector<double> Random(int64_t size, std::mt19937_64* random) {
  std::vector<double> data(static_cast<size_t>(size));
  // 53 random bits, equal on all platforms.
  for (double& x : data) {
    x = static_cast<double>((*random)() >> 11) * 0x1p-52 - 1;
  }
  return data;
}

// The params and inputs to differentiate with respect to.
Result<std::vector<std::string>> FloatLeaves(const Graph& graph) {
  std::vector<std::string> leaves;
  for (const ValueInfo& value : graph.values()) {
    if (!value.is_leaf() || !IsFloat(value.type.dtype)) continue;
    if (value.role != Role::kParam && value.role != Role::kInput) continue;
    if (value.type.dtype != DType::kF64) {
      return InvalidArgumentError("[gradient_check] ", Quoted(value.name),
                                  " is ", value.type.ToString(),
                                  "; gradients are checked in f64");
    }
    leaves.push_back(value.name);
  }
  return leaves;
}

Status RunForward(Runner& runner) {
  const StepCode code = runner.Step();
  if (code == StepCode::kOk) return {};
  return runner.Explain(code);
}

Result<double> LossAt(Runner& runner, std::string_view loss,
                      const std::string& leaf, const std::vector<double>& at) {
  STOWAGE_RETURN_IF_ERROR(runner.Write(leaf, at));
  STOWAGE_RETURN_IF_ERROR(RunForward(runner));
  std::vector<double> value(1);
  STOWAGE_RETURN_IF_ERROR(runner.Read(loss, &value));
  return value[0];
}

}  // namespace

Result<std::vector<CheckedGradient>> CheckGradients(
    const Graph& forward, std::string_view loss, Backend& backend,
    const GradientCheckOptions& options) {
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<std::string> leaves,
                           FloatLeaves(forward));
  STOWAGE_ASSIGN_OR_RETURN(const Graph backward,
                           BuildBackward(forward, loss, {.wrt = leaves}));
  STOWAGE_ASSIGN_OR_RETURN(Graph step, LinkBackward(forward, backward, loss));
  if (std::ranges::none_of(step.outputs(), [&](const GraphOutput& output) {
        return output.name == loss;
      })) {
    return InvalidArgumentError("[gradient_check] ", Quoted(loss),
                                " is no output of ", Quoted(forward.name()),
                                "; give it one by Output");
  }
  STOWAGE_ASSIGN_OR_RETURN(Plan plan,
                           PlanMemory(step, {.device = backend.Needs()}));
  std::vector<SessionProgram> programs;
  programs.push_back({"check", std::move(step), std::move(plan)});
  STOWAGE_ASSIGN_OR_RETURN(Session session,
                           Session::Create(std::move(programs), backend));
  Runner& runner = session.front();

  std::mt19937_64 random(options.seed);
  const auto size_of = [&](const std::string& leaf) {
    return forward.value(*forward.Find(leaf)).type.shape.num_elements();
  };
  for (const std::string& leaf : leaves) {
    STOWAGE_RETURN_IF_ERROR(runner.Write(leaf, Random(size_of(leaf), &random)));
  }
  if (options.write) STOWAGE_RETURN_IF_ERROR(options.write(runner));
  STOWAGE_RETURN_IF_ERROR(RunForward(runner));

  // Read gradients before a leaf is changed.
  std::vector<std::vector<double>> gradients;
  for (const std::string& leaf : leaves) {
    gradients.emplace_back(static_cast<size_t>(size_of(leaf)));
    STOWAGE_RETURN_IF_ERROR(runner.Read(GradientName(leaf), &gradients.back()));
  }
  std::vector<CheckedGradient> checked;
  for (size_t i = 0; i < leaves.size(); ++i) {
    const std::string& leaf = leaves[i];
    std::vector<double> center(gradients[i].size());
    STOWAGE_RETURN_IF_ERROR(runner.Read(leaf, &center));
    const std::vector<double> direction = Random(size_of(leaf), &random);
    double losses[2];
    for (const int side : {0, 1}) {
      std::vector<double> moved = center;
      for (size_t k = 0; k < moved.size(); ++k) {
        moved[k] += (side == 1 ? options.step : -options.step) * direction[k];
      }
      STOWAGE_ASSIGN_OR_RETURN(losses[side], LossAt(runner, loss, leaf, moved));
    }
    STOWAGE_RETURN_IF_ERROR(runner.Write(leaf, center));
    CheckedGradient row{.leaf = leaf};
    row.difference = (losses[1] - losses[0]) / (2 * options.step);
    for (size_t k = 0; k < direction.size(); ++k) {
      row.gradient += gradients[i][k] * direction[k];
    }
    const double allowed =
        options.tolerance * std::max(1.0, std::abs(row.difference));
    // Negated so that NaN fails.
    if (!(std::abs(row.gradient - row.difference) <= allowed)) {
      return InvalidArgumentError(
          "[gradient_check] the gradient of ", Quoted(leaf), " is ",
          row.gradient, " along a direction in which differences of ",
          Quoted(loss), " make ", row.difference, "; more than ",
          options.tolerance, " apart, relative to the larger of it and 1");
    }
    checked.push_back(std::move(row));
  }
  return checked;
}

}  // namespace stowage
