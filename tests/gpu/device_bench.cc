#include "tests/gpu/device_bench.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "nn/models.h"
#include "planner/fit/fit.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"
#include "tests/gpu/synthetic_run.h"
#include "tools/heap_counter.h"

namespace stowage::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kBatches = 8;

// A session of one training step, ready to run.
struct Training {
  Graph step;
  Plan plan;
  int recomputed_nodes = 0;
  double extra_percent = 0;
  double plan_seconds = 0;
  Session session;
  SyntheticInputs inputs;
  int64_t tokens = 0;   // a step
  Bytes on_device = 0;  // what the session took there
};

double Seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Recomputes what is nearly free, and more only where that is not enough.
Result<FittedStep> FitInto(const Graph& step, std::optional<Bytes> budget,
                           const DeviceNeeds& needs) {
  FitOptions options{.plan = {.device = needs},
                     .optimizations = {.recompute = Recompute::kCheap,
                                       .offload = OffloadChoice::kNone}};
  Result<FittedStep> cheap = StepFitter(OfGraph(step), options).Fit(budget);
  if (cheap.ok() || cheap.error().code != ErrorCode::kBudgetTooSmall) {
    return cheap;
  }
  options.optimizations.recompute = Recompute::kAuto;
  return StepFitter(OfGraph(step), options).Fit(budget);
}

Result<Training> Open(const BenchCase& bench, Backend& backend,
                      gpu::Device& device) {
  const SyntheticStep& spec = bench.step;
  DeviceNeeds needs = backend.Needs();
  if (!bench.fused) needs.fusions = {};
  STOWAGE_ASSIGN_OR_RETURN(const ModelInfo info, FindModel(spec.model));
  STOWAGE_ASSIGN_OR_RETURN(const Graph given, BuildSyntheticStep(spec));
  const Clock::time_point start = Clock::now();
  STOWAGE_ASSIGN_OR_RETURN(FittedStep made,
                           FitInto(given, bench.budget, needs));
  const double plan_seconds = Seconds(start, Clock::now());
  STOWAGE_ASSIGN_OR_RETURN(const gpu::DeviceMemory before, device.Memory());
  STOWAGE_ASSIGN_OR_RETURN(
      Session session,
      Session::Create({{"train", made.graph, made.plan}}, backend));
  session.Initialize(1);
  STOWAGE_ASSIGN_OR_RETURN(const gpu::DeviceMemory after, device.Memory());
  SyntheticInputs inputs(made.graph, info.vocabulary, kBatches);
  const int64_t batch = spec.options.batch.value_or(info.batch);
  const int64_t seq = std::max<int64_t>(1, spec.options.seq.value_or(info.seq));
  return Training{.step = std::move(made.graph),
                  .plan = std::move(made.plan),
                  .recomputed_nodes = made.price.recomputed_nodes,
                  .extra_percent = made.price.extra_percent,
                  .plan_seconds = plan_seconds,
                  .session = std::move(session),
                  .inputs = std::move(inputs),
                  .tokens = batch * seq,
                  .on_device = before.free - after.free};
}

// What is measured of each step.
struct Timing {
  std::vector<double> seconds;  // from the loss before to this one
  float first_loss = NAN, last_loss = NAN;
  bool finite = true;
};

// Runs `steps` more; `timing` has room for them. Allocates nothing.
Status RunMore(Training& training, int64_t* done, int64_t steps,
               Timing* timing) {
  Runner& train = training.session.front();
  Clock::time_point last = Clock::now();
  const auto read = [&](uint64_t step) -> Status {
    STOWAGE_ASSIGN_OR_RETURN(const float loss, train.ReadScalar("loss", step));
    const Clock::time_point now = Clock::now();
    timing->seconds.push_back(Seconds(last, now));
    last = now;
    if (std::isnan(timing->first_loss)) timing->first_loss = loss;
    timing->last_loss = loss;
    timing->finite &= std::isfinite(loss);
    return {};
  };
  uint64_t started = 0;
  for (int64_t i = 0; i < steps; ++i) {
    STOWAGE_RETURN_IF_ERROR(training.inputs.Write(train, ++*done));
    started = train.Start();
    if (i > 0) STOWAGE_RETURN_IF_ERROR(read(started - 1));
  }
  return read(started);
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Bytes PeakResidentBytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return Bytes{usage.ru_maxrss} * 1024;  // Linux counts KiB
}

// Whether a file that allocated is a part of what was built here, as the program
// and the C++ library are, and not the driver's or cuBLASLt's, which allocate now
// and then as they please.
bool IsOurs(const std::string& file) {
  const std::string name = file.substr(file.rfind('/') + 1);
  return !name.starts_with("libcuda.so") && !name.starts_with("libnvidia-") &&
         !name.starts_with("libcublas");
}

}  // namespace

std::string BenchName(const BenchCase& bench) {
  const ModelOptions& options = bench.step.options;
  std::string name = StrCat(bench.step.model, " ", DTypeName(options.dtype));
  if (options.batch && options.seq) {
    name += StrCat(" ", *options.batch, " x ", *options.seq);
  }
  if (bench.budget) {
    name += StrCat(", ", Fixed(1e-9 * static_cast<double>(*bench.budget), 1),
                   " GB");
  }
  if (!bench.fused) name += ", apart";
  return name;
}

Status CheckGrowth(const GrowthCase& growth, Backend& backend,
                   gpu::Device& device, CheckRow* row) {
  STOWAGE_ASSIGN_OR_RETURN(Training training,
                           Open({.step = growth.step}, backend, device));
  const int64_t steps = growth.steps;
  Timing timing;
  timing.seconds.reserve(static_cast<size_t>(growth.warm_up + steps));
  int64_t done = 0;
  STOWAGE_RETURN_IF_ERROR(RunMore(training, &done, growth.warm_up, &timing));
  STOWAGE_ASSIGN_OR_RETURN(const gpu::DeviceMemory before, device.Memory());
  const Bytes resident = PeakResidentBytes();
  const std::optional<int64_t> heap = tools::HeapAllocations();
  STOWAGE_RETURN_IF_ERROR(RunMore(training, &done, steps, &timing));
  const std::optional<int64_t> heap_after = tools::HeapAllocations();
  const std::map<std::string, int64_t> callers =
      tools::HeapCallers(heap && heap_after ? *heap_after - *heap : 0);
  STOWAGE_ASSIGN_OR_RETURN(const gpu::DeviceMemory after, device.Memory());
  const Bytes grown = before.free - after.free;
  row->figure = StrCat(steps, " steps, free memory of the device ", after.free,
                       grown == 0 ? ", unchanged" : "");
  row->data = {{"steps", steps},
               {"device_free_bytes_before", before.free},
               {"device_free_bytes_after", after.free},
               {"peak_rss_growth_bytes", PeakResidentBytes() - resident}};
  if (grown != 0) {
    row->Fail(StrCat("the device has ", grown, " bytes less free"));
  }
  if (growth.count_heap && heap && heap_after) {
    int64_t ours = 0;
    row->data["heap_allocations_by_file"] = nlohmann::ordered_json::object();
    for (const auto& [file, made] : callers) {
      row->data["heap_allocations_by_file"][file] = made;
      if (IsOurs(file)) ours += made;
    }
    const int64_t allocations = *heap_after - *heap;
    row->figure += StrCat(", heap allocations ", ours);
    if (allocations > ours) {
      row->figure += StrCat(", and ", allocations - ours, " by the driver");
    }
    row->data["heap_allocations"] = ours;
    row->data["heap_allocations_of_the_driver"] = allocations - ours;
    if (ours != 0) row->Fail(StrCat(ours, " heap allocations in steps"));
  }
  if (!timing.finite) row->Fail("a loss is not finite");
  return {};
}

Status RunBench(const BenchCase& bench, Backend& backend, gpu::Device& device,
                CheckRow* row) {
  STOWAGE_ASSIGN_OR_RETURN(Training training, Open(bench, backend, device));
  Timing warm_up, timing;
  warm_up.seconds.reserve(static_cast<size_t>(bench.warm_up));
  timing.seconds.reserve(static_cast<size_t>(bench.steps));
  int64_t done = 0;
  STOWAGE_RETURN_IF_ERROR(RunMore(training, &done, bench.warm_up, &warm_up));
  STOWAGE_RETURN_IF_ERROR(RunMore(training, &done, bench.steps, &timing));
  const double median = Median(timing.seconds);
  const double flops = GraphFlops(training.step);
  const Bytes arena = training.session.arena_bytes();
  const double per_second = static_cast<double>(training.tokens) / median;
  row->figure = StrCat(
      Fixed(1e3 * median, 3), " ms a step, ", Fixed(per_second, 0),
      bench.step.model == "mlp" ? " examples/s, " : " tokens/s, ",
      Fixed(1e-12 * flops / median, 1), " TFLOP/s, arena ", FormatBytes(arena),
      " and ", FormatBytes(training.on_device - arena), " beside it");
  row->data = {
      {"model", bench.step.model},
      {"dtype", DTypeName(bench.step.options.dtype)},
      {"tokens_per_step", training.tokens},
      {"timed_steps", bench.steps},
      {"median_step_seconds", median},
      {"fastest_step_seconds",
       *std::min_element(timing.seconds.begin(), timing.seconds.end())},
      {"tokens_per_second", per_second},
      {"flops_per_step", flops},
      {"tflops_per_second", 1e-12 * flops / median},
      {"arena_bytes", arena},
      {"plan_bytes", training.plan.arena_bytes()},
      {"lower_bound_bytes", training.plan.lower_bound},
      {"nodes", training.step.num_nodes()},
      {"no_reuse_bytes", training.plan.no_reuse},
      {"session_device_bytes", training.on_device},
      {"recomputed_nodes", training.recomputed_nodes},
      {"extra_flops_percent", training.extra_percent},
      {"plan_seconds", training.plan_seconds},
      {"first_loss", warm_up.first_loss},
      {"last_loss", timing.last_loss},
      {"peak_rss_bytes", PeakResidentBytes()}};
  nlohmann::ordered_json beside = nlohmann::ordered_json::object();
  for (const MemoryNote& note : backend.MemoryBesideArena()) {
    beside[note.what] = note.bytes;
  }
  row->data["beside_arena_bytes"] = beside;
  if (training.recomputed_nodes > 0) {
    row->figure += StrCat(", ", training.recomputed_nodes, " nodes run again");
  }
  if (bench.budget) {
    row->data["budget_bytes"] = *bench.budget;
    if (arena > *bench.budget) {
      row->Fail(StrCat("the arena is above the budget of ", *bench.budget));
    }
  }
  if (arena != training.plan.arena_bytes()) {
    row->Fail(StrCat("the arena is ", arena, " bytes, the plan ",
                     training.plan.arena_bytes()));
  }
  if (!warm_up.finite || !timing.finite) row->Fail("a loss is not finite");
  return {};
}

Status TimeOps(const BenchCase& bench, Backend& backend, gpu::Device& device,
               CheckRow* row) {
  constexpr size_t kMaxNamed = 6;
  STOWAGE_ASSIGN_OR_RETURN(Training training, Open(bench, backend, device));
  const Graph& graph = training.step;
  Runner& train = training.session.front();
  std::vector<double> seconds(static_cast<size_t>(graph.num_nodes()));
  std::vector<std::vector<double>> of_node(seconds.size());
  for (int64_t step = 1; step <= bench.warm_up + bench.steps; ++step) {
    STOWAGE_RETURN_IF_ERROR(training.inputs.Write(train, step));
    if (const StepCode code = train.StepTimed(seconds); code != StepCode::kOk) {
      return train.Explain(code);
    }
    if (step <= bench.warm_up) continue;
    for (size_t n = 0; n < seconds.size(); ++n)
      of_node[n].push_back(seconds[n]);
  }
  struct Family {
    std::string op;
    int64_t nodes = 0;
    double seconds = 0, flops = 0;
  };
  std::map<std::string, Family> by_op;
  double total = 0;
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    const double median = Median(std::move(of_node[static_cast<size_t>(n)]));
    if (median == 0) continue;  // a view
    Family& family = by_op[std::string(OpName(graph.node(n).op))];
    family.op = OpName(graph.node(n).op);
    ++family.nodes;
    family.seconds += median;
    family.flops += NodeFlops(graph, graph.node(n));
    total += median;
  }
  std::vector<Family> families;
  for (const auto& [op, family] : by_op) families.push_back(family);
  std::ranges::stable_sort(families, std::ranges::greater{}, &Family::seconds);
  row->figure = StrCat(Fixed(1e3 * total, 3), " ms op by op");
  row->data = {{"seconds_by_op", total},
               {"timed_steps", bench.steps},
               {"ops", nlohmann::ordered_json::array()}};
  for (size_t i = 0; i < families.size(); ++i) {
    const Family& family = families[i];
    if (i < kMaxNamed) {
      row->figure +=
          StrCat(", ", family.op, " ", Fixed(1e3 * family.seconds, 3));
    }
    row->data["ops"].push_back({{"op", family.op},
                                {"nodes", family.nodes},
                                {"seconds", family.seconds},
                                {"flops", family.flops}});
  }
  return {};
}

namespace {

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A kernel an iteration, chosen or not.
Result<Graph> Iterations(int64_t iterations, bool branches) {
  GraphBuilder g("iterations");
  const Value x = g.Input("x", DType::kF32, {256});
  const Value which = g.Input("which", DType::kI32, {});
  const LoopResults run = Loop(
      g, iterations, {.carried = {x}, .whole = {which}}, [&](LoopBody& body) {
        const Value now = body.carried(0);
        if (!branches) return body.Next(0, Neg(now));
        body.Next(
            0, Cond(body.builder(), body.whole(0), {now},
                    {[](CondBody& b) { return std::vector{Neg(b.operand(0))}; },
                     [](CondBody& b) {
                       return std::vector{Abs(b.operand(0))};
                     }})[0]);
      });
  g.Output("y", run.carried[0]);
  return g.Finish();
}

// The medians of a whole step, and of its Start.
Result<BranchCost> MeasureSteps(const BranchCostCase& of, bool branches,
                                Backend& backend) {
  STOWAGE_ASSIGN_OR_RETURN(const Graph graph,
                           Iterations(of.iterations, branches));
  STOWAGE_ASSIGN_OR_RETURN(const Plan plan,
                           PlanMemory(graph, {.device = backend.Needs()}));
  STOWAGE_ASSIGN_OR_RETURN(
      Session session, Session::Create({{"iterations", graph, plan}}, backend));
  Runner& p = session.front();
  STOWAGE_RETURN_IF_ERROR(p.Write("x", std::vector<float>(256, 1)));
  STOWAGE_RETURN_IF_ERROR(p.Write("which", int32_t{0}));
  std::vector<double> whole, held;
  for (int64_t i = 0; i < of.warm_up + of.steps; ++i) {
    const Clock::time_point start = Clock::now();
    const uint64_t step = p.Start();
    held.push_back(SecondsSince(start));
    const StepCode code = p.Wait(step);
    if (code != StepCode::kOk) return p.Explain(code);
    whole.push_back(SecondsSince(start));
  }
  const auto median = [&](std::vector<double>& seconds) {
    seconds.erase(seconds.begin(), seconds.begin() + of.warm_up);
    const auto middle = seconds.begin() + std::ssize(seconds) / 2;
    std::ranges::nth_element(seconds, middle);
    return *middle;
  };
  return BranchCost{median(whole), median(held)};
}

}  // namespace

Result<BranchCost> MeasureBranches(const BranchCostCase& of, Backend& backend) {
  STOWAGE_ASSIGN_OR_RETURN(const BranchCost with,
                           MeasureSteps(of, true, backend));
  STOWAGE_ASSIGN_OR_RETURN(const BranchCost without,
                           MeasureSteps(of, false, backend));
  const auto iterations = static_cast<double>(of.iterations);
  return BranchCost{(with.seconds - without.seconds) / iterations,
                    (with.held - without.held) / iterations};
}

}  // namespace stowage::testing
