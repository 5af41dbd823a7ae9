#include "tests/gpu/synthetic_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "autodiff/train_step.h"
#include "base/hash.h"
#include "base/strings.h"
#include "nn/models.h"
#include "tests/support/random_graph.h"

namespace stowage::testing {
namespace {

constexpr uint64_t kSeed = 7;
constexpr float kLearningRate = 1e-3f;

}  // namespace

Result<Graph> BuildSyntheticStep(const SyntheticStep& spec) {
  STOWAGE_ASSIGN_OR_RETURN(const ModelInfo info, FindModel(spec.model));
  STOWAGE_ASSIGN_OR_RETURN(
      const Graph forward,
      BuildModel(spec.model, ModelPurpose::kTrain, spec.options));
  const AdamW adamw{.beta1 = info.training.beta1,
                    .beta2 = info.training.beta2,
                    .decay = info.training.decay};
  return BuildTrainStep(forward, "loss",
                        {.optimizer = adamw, .clip_norm = spec.clip_norm});
}

SyntheticInputs::SyntheticInputs(const Graph& step, int64_t limit,
                                 int64_t batches)
    : batches_(batches) {
  for (const ValueId id : step.Leaves(Role::kInput)) {
    const ValueInfo& value = step.value(id);
    Input input{.name = value.name};
    const auto n = static_cast<size_t>(value.type.shape.num_elements());
    if (value.name == "step" || value.name == "seed") {
      input.counts = true;
    } else if (value.name == "lr") {
      input.floats.assign(static_cast<size_t>(batches), {kLearningRate});
    } else {
      for (int64_t batch = 0; batch < batches; ++batch) {
        // By the name, which is the same in graphs of every type.
        Fnv1a hash;
        hash.Update(value.name);
        Rng rng(hash.digest() + static_cast<uint64_t>(batch));
        if (value.type.dtype == DType::kF32) {
          auto& floats = input.floats.emplace_back(n);
          for (float& x : floats) x = static_cast<float>(rng.Uniform(0, 1));
        } else {
          auto& integers = input.integers.emplace_back(n);
          for (int32_t& x : integers) {
            x = static_cast<int32_t>(rng.Below(limit));
          }
        }
      }
    }
    inputs_.push_back(std::move(input));
  }
}

Status SyntheticInputs::Write(Runner& train, int64_t step) const {
  const auto batch = static_cast<size_t>(step % batches_);
  for (const Input& input : inputs_) {
    if (input.counts) {
      STOWAGE_RETURN_IF_ERROR(train.Write(input.name, step));
    } else if (!input.floats.empty()) {
      STOWAGE_RETURN_IF_ERROR(train.Write(input.name, input.floats[batch]));
    } else {
      STOWAGE_RETURN_IF_ERROR(train.Write(input.name, input.integers[batch]));
    }
  }
  return {};
}

Result<Outcome> RunSteps(const Graph& step, const SyntheticInputs& inputs,
                         int64_t steps, Backend& backend,
                         const StepsOptions& options) {
  PlanOptions planning = options.planning;
  if (!planning.device.reserve) planning.device = backend.Needs();
  STOWAGE_ASSIGN_OR_RETURN(Plan plan, PlanMemory(step, planning));
  STOWAGE_ASSIGN_OR_RETURN(
      Session session,
      Session::Create({{"train", step, std::move(plan)}}, backend,
                      {.arena = {}, .poison = options.poison}));
  session.Initialize(kSeed);
  Runner& train = session.front();
  Outcome outcome;
  uint64_t read = 0;
  const auto read_until = [&](uint64_t last) -> Status {
    while (read < last) {
      STOWAGE_ASSIGN_OR_RETURN(const float loss,
                               train.ReadScalar("loss", ++read));
      outcome.losses.push_back(loss);
    }
    return {};
  };
  uint64_t started = 0;
  for (int64_t i = 1; i <= steps; ++i) {
    STOWAGE_RETURN_IF_ERROR(inputs.Write(train, i));
    started = train.Start();
    if (started > options.ahead) {
      STOWAGE_RETURN_IF_ERROR(read_until(started - options.ahead));
    }
  }
  STOWAGE_RETURN_IF_ERROR(read_until(started));
  for (const Role role : {Role::kParam, Role::kState}) {
    for (const ValueId id : step.Leaves(role)) {
      const ValueInfo& value = step.value(id);
      std::vector<std::byte> bytes(static_cast<size_t>(value.type.bytes()));
      STOWAGE_RETURN_IF_ERROR(
          train.ReadBytes(value.name, value.type.dtype, bytes));
      outcome.persistent[value.name] = std::move(bytes);
    }
  }
  return outcome;
}

std::string Differences(const Outcome& a, const Outcome& b) {
  constexpr int kMaxNamed = 3;
  std::string names;
  int count = 0;
  const auto note = [&](const std::string& name) {
    if (++count <= kMaxNamed) {
      names += StrCat(names.empty() ? "" : ", ", name);
    }
  };
  for (size_t i = 0; i < std::max(a.losses.size(), b.losses.size()); ++i) {
    // Bits, so that NaN equals itself.
    if (i >= a.losses.size() || i >= b.losses.size() ||
        std::memcmp(&a.losses[i], &b.losses[i], sizeof(float)) != 0) {
      note(StrCat("loss ", i + 1));
    }
  }
  for (const auto& [name, bytes] : a.persistent) {
    const auto other = b.persistent.find(name);
    if (other == b.persistent.end() || other->second != bytes) note(name);
  }
  if (count > kMaxNamed) names += StrCat(" and ", count - kMaxNamed, " more");
  return names;
}

double LossDifference(const Outcome& a, const Outcome& b) {
  if (a.losses.size() != b.losses.size()) return NAN;
  double largest = 0;
  for (size_t i = 0; i < a.losses.size(); ++i) {
    const double difference =
        std::abs(double{a.losses[i]} - b.losses[i]) / std::abs(b.losses[i]);
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

double ParamsDifference(const Graph& step, const Outcome& a, const Outcome& b) {
  double difference = 0;
  double norm = 0;
  for (const ValueId id : step.Leaves(Role::kParam)) {
    const ValueInfo& value = step.value(id);
    if (value.type.dtype != DType::kF32) continue;
    const auto& of_a = a.persistent.at(value.name);
    const auto& of_b = b.persistent.at(value.name);
    for (size_t i = 0; i < of_b.size(); i += sizeof(float)) {
      float x = 0, y = 0;
      std::memcpy(&x, &of_a[i], sizeof(x));
      std::memcpy(&y, &of_b[i], sizeof(y));
      difference += (double{x} - y) * (double{x} - y);
      norm += double{y} * y;
    }
  }
  return std::sqrt(difference / norm);
}

}  // namespace stowage::testing
