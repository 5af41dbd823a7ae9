#include "tests/support/run_steps.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/result.h"
#include "base/strings.h"
#include "runtime/session.h"
#include "tests/support/random_graph.h"

namespace stowage::testing {
namespace {

void Require(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  std::abort();
}

template <typename T>
T Require(Result<T> result) {
  if (!result.ok()) Require(Status(result.error()));
  return std::move(*result);
}

std::vector<std::byte> BytesOf(const Runner& runner, const std::string& name) {
  const TensorType& type =
      runner.graph().value(*runner.graph().Find(name)).type;
  std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
  Require(runner.ReadBytes(name, type.dtype, bytes));
  return bytes;
}

}  // namespace

Visible RunSteps(const Graph& graph, Backend& backend,
                 const RunOptions& options) {
  PlanOptions plan_options{.alignment = options.alignment,
                           .device = backend.Needs()};
  if (!options.planned) {
    plan_options.packer = Packer::kLinear;
    plan_options.in_place = false;
  }
  Plan plan = Require(PlanMemory(graph, plan_options));
  Session session =
      Require(Session::Create({{"run", graph, std::move(plan)}}, backend,
                              {.arena = {}, .poison = options.poison}));
  return RunSteps(session, options);
}

Visible RunSteps(Session& session, const RunOptions& options) {
  session.Initialize(options.seed);
  Runner& runner = session.front();
  const Graph& graph = runner.graph();

  Visible visible;
  for (int64_t step = 0; step < options.steps; ++step) {
    if (options.write_inputs) {
      options.write_inputs(runner, step + 1);
    } else {
      WriteRandomInputs(runner, options.seed, step + 1);
    }
    if (const StepCode code = runner.Step(); code != StepCode::kOk) {
      Require(Status(runner.Explain(code)));
    }
    for (const GraphOutput& output : graph.outputs()) {
      visible[StrCat(output.name, "@", step)] = BytesOf(runner, output.name);
    }
  }
  for (const Role role : {Role::kParam, Role::kState}) {
    for (const ValueId id : graph.Leaves(role)) {
      const std::string& name = graph.value(id).name;
      visible[name] = BytesOf(runner, name);
    }
  }
  return visible;
}

double LargestDifference(const Visible& a, const Visible& b) {
  STOWAGE_CHECK(a.size() == b.size());
  double largest = 0;
  for (const auto& [name, bytes] : b) {
    const std::vector<std::byte>& other = a.at(name);
    STOWAGE_CHECK(other.size() == bytes.size());
    for (size_t i = 0; i + sizeof(float) <= bytes.size(); i += sizeof(float)) {
      float x, y;
      std::memcpy(&x, &other[i], sizeof(x));
      std::memcpy(&y, &bytes[i], sizeof(y));
      const double difference = std::abs(double{x} - y) / (1 + std::abs(y));
      if (!(difference <= largest)) {
        largest = std::isnan(difference)
                      ? std::numeric_limits<double>::infinity()
                      : difference;
      }
    }
  }
  return largest;
}

std::string Differences(const Visible& a, const Visible& b) {
  std::string names;
  for (const auto& [name, bytes] : a) {
    const auto other = b.find(name);
    if (other != b.end() && other->second == bytes) continue;
    names += (names.empty() ? "" : ", ") + name;
  }
  return a.size() == b.size() ? names : names + " (different sets)";
}

}  // namespace stowage::testing
