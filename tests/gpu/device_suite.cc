#include "tests/gpu/device_suite.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "gpu/attention_autotuner.h"
#include "gpu/queue.h"
#include "nn/models.h"
#include "planner/packing/packer.h"
#include "tests/gpu/device_bench.h"
#include "tests/support/op_cases.h"
#include "tests/support/random_control_flow.h"
#include "tests/support/run_steps.h"

namespace stowage::testing {
namespace {

using Clock = std::chrono::steady_clock;

// Sums in another order, and AdamW makes much of a small difference.
constexpr double kLossTolerance = 5e-5;
constexpr double kParamsTolerance = 1e-3;
constexpr double kBranchesTolerance = 1e-5;
constexpr uint64_t kBranchingGraphs = 20;
constexpr double kBF16LossTolerance = 0.02;  // as tests/gpu/train_steps_test.cc

SyntheticStep In(DType dtype, SyntheticStep step) {
  step.options.dtype = dtype;
  return step;
}

// Elsewhere in the arena: nothing in place, nothing shared, and the reserve
// larger than it need be.
PlanOptions AnotherLayout(const Backend& backend) {
  DeviceNeeds needs = backend.Needs();
  needs.reserve = [reserve = needs.reserve](const Graph& graph,
                                            Bytes alignment) {
    return reserve(graph, alignment) + 3 * alignment;
  };
  return {.packer = Packer::kLinear, .in_place = false, .device = needs};
}

std::string Micros(const BranchCost& cost) {
  return StrCat(Fixed(1e6 * cost.seconds, 1), " us");
}

class Suite {
 public:
  Suite(const OpenDevice& open, const SuiteOptions& options,
        const std::function<void(const CheckRow&)>& shown)
      : open_(open), options_(options), shown_(shown) {}

  Result<std::vector<CheckRow>> Run() {
    STOWAGE_ASSIGN_OR_RETURN(opened_, open_({}));
    AddAll();
    return std::move(rows_);
  }

  // The names alone; no device is opened.
  std::vector<std::string> Names() {
    only_names_ = true;
    AddAll();
    std::vector<std::string> names;
    for (const CheckRow& row : rows_) names.push_back(row.name);
    return names;
  }

 private:
  void AddAll() {
    Add("device", "", [&](CheckRow* row) { return DescribeDevice(row); });
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      AddOps(dtype);
    }
    for (const BenchCase& bench : options_.bench) {
      Add("bench", BenchName(bench), [&](CheckRow* row) {
        return RunBench(bench, *opened_.backend, *opened_.device, row);
      });
    }
    for (const BenchCase& bench : options_.times) {
      Add("times", BenchName(bench), [&](CheckRow* row) {
        return TimeOps(bench, *opened_.backend, *opened_.device, row);
      });
    }
    Add("growth", options_.growth.step.model, [&](CheckRow* row) {
      return CheckGrowth(options_.growth, *opened_.backend, *opened_.device,
                         row);
    });
    for (const ModelCase& model : options_.models) {
      Add("models", model.step.model,
          [&](CheckRow* row) { return CompareWithCpu(model, row); });
    }
    for (const ModelCase& model : options_.models) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        Add("bits", StrCat(model.step.model, " ", DTypeName(dtype)),
            [&](CheckRow* row) { return CompareRuns(model, dtype, row); });
      }
    }
    Add("branches", "", [&](CheckRow* row) { return CheckBranches(row); });
    for (const AttentionCheck& attention : options_.attention) {
      Add("attention", AttentionName(attention), [&](CheckRow* row) {
        return CheckAttentionAlgorithms(attention, row);
      });
    }
  }

  // Runs a check of a group that is wanted, if its row is not known yet.
  template <typename Check>
  void Add(const std::string& group, std::string_view what,
           const Check& check) {
    if (!options_.only.empty() && !options_.only.contains(group)) return;
    CheckRow row{.name = what.empty() ? group : StrCat(group, " ", what)};
    if (options_.known.contains(row.name)) return;
    if (!options_.row.empty() && row.name != options_.row) return;
    if (only_names_) {
      rows_.push_back(std::move(row));
      return;
    }
    const Clock::time_point start = Clock::now();
    const Status status = check(&row);
    if (!status.ok()) row.Fail(status.error().message);
    row.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (shown_) shown_(row);
    rows_.push_back(std::move(row));
  }

  // The op table, in rows of so many cases.
  void AddOps(DType dtype) {
    const size_t cases = GpuOpCases(dtype).size();
    OpCheckOptions check = options_.ops;
    if (options_.op_cases > 0) check.count = options_.op_cases;
    for (; check.first < cases; check.first += check.count) {
      const size_t count = std::min(check.count, cases - check.first);
      const std::string which =
          options_.op_cases == 0
              ? ""
              : StrCat(" ", check.first + 1, "-", check.first + count);
      Add("ops", StrCat(DTypeName(dtype), which), [&](CheckRow* row) -> Status {
        CheckOps(dtype, check, *opened_.backend, row);
        return {};
      });
      if (count < check.count) break;
    }
  }

  Status DescribeDevice(CheckRow* row) {
    const gpu::DeviceTraits& traits = opened_.device->traits();
    row->figure = opened_.backend->description();
    row->data = {
        {"device", traits.name},
        {"compute_capability", StrCat(traits.major, ".", traits.minor)},
        {"software", traits.software},
        {"matmul_library", traits.matmul_library}};
    STOWAGE_ASSIGN_OR_RETURN(const gpu::DeviceMemory memory,
                             opened_.device->Memory());
    row->data["free_bytes"] = memory.free;
    row->data["total_bytes"] = memory.total;
    if (options_.describe) options_.describe(row);
    return {};
  }

  Status CheckAttentionAlgorithms(const AttentionCheck& check, CheckRow* row) {
    const gpu::DeviceTraits& traits = opened_.device->traits();
    const gpu::AttentionAlgorithms there =
        gpu::AttentionAlgorithmsOf(traits, gpu::kAllAttentionAlgorithms);
    std::vector<OpenedDevice> opened;
    std::vector<AttentionBackend> ways;
    for (int i = 0; i < gpu::kNumAttentionAlgorithms; ++i) {
      const auto way = static_cast<gpu::AttentionAlgorithm>(i);
      if (!there.Has(way)) continue;
      STOWAGE_ASSIGN_OR_RETURN(OpenedDevice alone, open_({.attention = {way}}));
      ways.push_back({way, alone.backend.get()});
      opened.push_back(std::move(alone));
    }
    if (ways.size() < 2) return CheckAttention(check, ways, nullptr, row);
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() /
        StrCat("stowage-attention-", getpid());
    std::filesystem::remove_all(folder);  // of an earlier row
    STOWAGE_ASSIGN_OR_RETURN(
        const OpenedDevice trying,
        open_({.attention = there, .algorithm_folder = folder.string()}));
    const Status checked =
        CheckAttention(check, ways, trying.backend.get(), row);
    std::filesystem::remove_all(folder);
    return checked;
  }

  // Random loops and branches, beside the CPU, taken by graphs where the device has them
  // there, and by the host; and what one costs.
  Status CheckBranches(CheckRow* row) {
    const auto cpu = MakeCpuBackend({});
    STOWAGE_ASSIGN_OR_RETURN(const OpenedDevice by_host,
                             open_({.branches_by_host = true}));
    double largest = 0;
    for (uint64_t seed = 0; seed < kBranchingGraphs; ++seed) {
      const Graph graph = MakeRandomControlFlow(seed);
      const Visible run = RunSteps(graph, *opened_.backend, {.seed = seed});
      largest = std::max(
          largest,
          LargestDifference(run, RunSteps(graph, *cpu, {.seed = seed})));
      const std::string differs =
          Differences(run, RunSteps(graph, *by_host.backend, {.seed = seed}));
      if (!differs.empty()) {
        row->Fail(StrCat("graph ", seed, " by the host differs: ", differs));
      }
    }
    if (!(largest <= kBranchesTolerance)) {
      row->Fail(StrCat("values differ by ", largest, ", more than ",
                       kBranchesTolerance));
    }
    STOWAGE_ASSIGN_OR_RETURN(
        const BranchCost host,
        MeasureBranches(options_.branches, *by_host.backend));
    STOWAGE_ASSIGN_OR_RETURN(
        const BranchCost own,
        MeasureBranches(options_.branches, *opened_.backend));
    row->figure += StrCat(row->figure.empty() ? "" : "; ", kBranchingGraphs,
                          " graphs, relative to the CPU: values ", largest,
                          "; a branch ", Micros(host), " by the host, ");
    row->data = {{"graphs", kBranchingGraphs},
                 {"difference", largest},
                 {"seconds_by_host", host.seconds},
                 {"held_seconds_by_host", host.held}};
    const std::string description = opened_.backend->description();
    const size_t why = description.find(gpu::kBranchesByHost);
    if (why != std::string::npos) {
      row->figure += StrCat("for ", description.substr(why));
      return {};
    }
    row->figure += StrCat(Micros(own), " in the graph");
    row->data["seconds_in_graph"] = own.seconds;
    row->data["held_seconds_in_graph"] = own.held;
    return {};
  }

  // The steps of a model on a backend.
  Result<Outcome> Steps(const ModelCase& model, DType dtype, Backend& backend,
                        const StepsOptions& options = {}) {
    STOWAGE_ASSIGN_OR_RETURN(const ModelInfo info, FindModel(model.step.model));
    STOWAGE_ASSIGN_OR_RETURN(const Graph step,
                             BuildSyntheticStep(In(dtype, model.step)));
    const SyntheticInputs inputs(step, info.vocabulary, model.steps);
    return RunSteps(step, inputs, model.steps, backend, options);
  }

  Status CompareWithCpu(const ModelCase& model, CheckRow* row) {
    const auto cpu = MakeCpuBackend({});
    STOWAGE_ASSIGN_OR_RETURN(const Outcome expected,
                             Steps(model, DType::kF32, *cpu));
    STOWAGE_ASSIGN_OR_RETURN(const Outcome f32,
                             Steps(model, DType::kF32, *opened_.backend));
    STOWAGE_ASSIGN_OR_RETURN(const Outcome bf16,
                             Steps(model, DType::kBF16, *opened_.backend));
    STOWAGE_ASSIGN_OR_RETURN(const Graph step,
                             BuildSyntheticStep(In(DType::kF32, model.step)));
    const double losses = LossDifference(f32, expected);
    const double params = ParamsDifference(step, f32, expected);
    const double bf16_losses = LossDifference(bf16, expected);
    row->figure =
        StrCat(model.steps, " steps, relative to the CPU: losses ", losses,
               ", params ", params, ", bf16 losses ", bf16_losses);
    row->data = {{"steps", model.steps},
                 {"loss_difference", losses},
                 {"params_difference", params},
                 {"bf16_loss_difference", bf16_losses},
                 {"first_loss", expected.losses.front()},
                 {"last_loss", expected.losses.back()}};
    const auto limit = [&](const char* what, double found, double tolerance) {
      if (found <= tolerance) return;  // which NaN is not
      row->Fail(StrCat(what, " differ by ", found, ", more than ", tolerance));
    };
    limit("losses", losses, kLossTolerance);
    limit("params", params, kParamsTolerance);
    limit("bf16 losses", bf16_losses, kBF16LossTolerance);
    return {};
  }

  Status CompareRuns(const ModelCase& model, DType dtype, CheckRow* row) {
    Backend& backend = *opened_.backend;
    STOWAGE_ASSIGN_OR_RETURN(const Outcome once, Steps(model, dtype, backend));
    int runs = 1;
    const auto compare = [&](const char* how, Backend& with,
                             const StepsOptions& options) -> Status {
      STOWAGE_ASSIGN_OR_RETURN(const Outcome other,
                               Steps(model, dtype, with, options));
      ++runs;
      const std::string where = Differences(once, other);
      if (!where.empty()) row->Fail(StrCat(how, " differs in ", where));
      return {};
    };
    STOWAGE_RETURN_IF_ERROR(compare("a second run", backend, {}));
    STOWAGE_RETURN_IF_ERROR(compare("another layout", backend,
                                    {.planning = AnotherLayout(backend)}));
    STOWAGE_RETURN_IF_ERROR(
        compare("a poisoned run", backend, {.poison = true}));
    STOWAGE_RETURN_IF_ERROR(
        compare("a run two steps ahead", backend, {.ahead = 2}));
    STOWAGE_ASSIGN_OR_RETURN(const OpenedDevice checked,
                             open_({.check = true}));
    STOWAGE_RETURN_IF_ERROR(compare("a run op by op", *checked.backend, {}));
    Bytes bytes = 0;
    for (const auto& [name, content] : once.persistent) {
      bytes += static_cast<Bytes>(content.size());
    }
    row->figure += StrCat(row->figure.empty() ? "" : "; ", runs, " runs of ",
                          model.steps, " steps, ", model.steps, " losses and ",
                          FormatBytes(bytes), " of params and states compared");
    row->data = {
        {"runs", runs}, {"steps", model.steps}, {"compared_bytes", bytes}};
    return {};
  }

  const OpenDevice& open_;
  const SuiteOptions& options_;
  const std::function<void(const CheckRow&)>& shown_;
  OpenedDevice opened_;
  bool only_names_ = false;
  std::vector<CheckRow> rows_;
};

}  // namespace

const std::vector<std::string>& SuiteGroups() {
  static const std::vector<std::string> kGroups = {
      "device", "ops",  "bench",    "times",    "growth",
      "models", "bits", "branches", "attention"};
  return kGroups;
}

SuiteOptions SuiteOptionsFor(SuiteSize size) {
  const SyntheticStep mlp{.model = "mlp", .clip_norm = 1.0};
  const SyntheticStep nano{
      .model = "gpt-nano", .options = {.dropout = 0.1}, .clip_norm = 1.0};
  if (size == SuiteSize::kSmall) {
    SyntheticStep small_mlp = mlp, small_nano = nano;
    small_mlp.options.batch = 8;
    small_nano.options.batch = 1;
    small_nano.options.seq = 24;
    return {.models = {{small_mlp, 2}, {small_nano, 2}},
            .growth = {.step = small_nano, .warm_up = 2, .steps = 10},
            .branches = {.iterations = 4, .warm_up = 1, .steps = 2},
            .attention = {{.batch = 1,
                           .length = 130,
                           .heads = 1,
                           .depth = 64,
                           .warm_up = 0,
                           .steps = 1}},
            .bench = {{.step = small_mlp, .warm_up = 1, .steps = 2}},
            .times = {{.step = small_mlp, .warm_up = 1, .steps = 2}}};
  }
  // Its vocabulary, which no tile divides, its width, and chunks of logits.
  const SyntheticStep gpt2{
      .model = "gpt2-124m",
      .options = {.batch = 1, .seq = 64, .logit_chunk = 48},
      .clip_norm = 1.0};
  const bool quick = size == SuiteSize::kQuick;
  const auto bench = [&](std::string model, DType dtype) {
    return BenchCase{
        .step = {.model = std::move(model), .options = {.dtype = dtype}},
        .steps = quick ? 200 : 2000};
  };
  const auto bench_gpt2 = [&](int64_t batch, std::optional<Bytes> budget) {
    return BenchCase{.step = {.model = "gpt2-124m",
                              .options = {.batch = batch,
                                          .seq = 1024,
                                          .dtype = DType::kBF16}},
                     .warm_up = 5,
                     .steps = (quick ? 320 : 1600) / batch,
                     .budget = budget};
  };
  BenchCase apart = bench_gpt2(64, {}), times = bench_gpt2(16, {});
  apart.fused = false;
  times.warm_up = 2;
  times.steps = quick ? 5 : 20;
  BenchCase times_apart = times;
  times_apart.fused = false;
  return {
      .models = {{mlp, 20}, {nano, 20}, {gpt2, 3}},
      .growth = {.steps = quick ? 1000 : 10'000},
      // GPT-2's, and as much of heads twice as wide.
      .attention = {{.batch = 16, .length = 1024, .heads = 12, .depth = 64},
                    {.batch = 16, .length = 1024, .heads = 6, .depth = 128}},
      .bench = {bench("mlp", DType::kF32), bench("mlp", DType::kBF16),
                bench("gpt-nano", DType::kF32), bench("gpt-nano", DType::kBF16),
                bench_gpt2(16, {}), bench_gpt2(16, Bytes{6'000'000'000}),
                bench_gpt2(64, {}), apart},
      .times = {times, times_apart}};
}

std::vector<std::string> SuiteRows(const SuiteOptions& options) {
  const OpenDevice none;
  const std::function<void(const CheckRow&)> quiet;
  std::vector<std::string> names = Suite(none, options, quiet).Names();
  // Beginnings of names; the others follow in the order in which they run.
  static constexpr std::string_view kFirst[] = {
      "device",    "ops bf16",   "bench gpt2-124m bf16 64",
      "attention", "bench gpt2", "times",
      "ops",       "bits gpt2",  "models",
      "branches"};
  const auto rank = [](std::string_view name) {
    return std::ranges::find_if(kFirst,
                                [&](std::string_view beginning) {
                                  return name.starts_with(beginning);
                                }) -
           std::begin(kFirst);
  };
  std::ranges::stable_sort(names, {}, rank);
  return names;
}

Result<std::vector<CheckRow>> RunDeviceSuite(
    const OpenDevice& open, const SuiteOptions& options,
    const std::function<void(const CheckRow&)>& shown) {
  return Suite(open, options, shown).Run();
}

}  // namespace stowage::testing
