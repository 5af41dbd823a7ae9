#include "python/plans.h"

#include <pybind11/stl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "cpu/targets.h"
#include "ir/tensor_type.h"
#include "planner/packing/packer.h"
#include "planner/packing/problem.h"
#include "planner/packing/validate.h"
#include "python/arrays.h"
#include "python/compiled.h"
#include "python/errors.h"
#include "report/report.h"
#include "report/svg.h"
#include "tools/frontier.h"
#include "train/device.h"
#include "train/plan_cache.h"
#include "train/step_memory.h"

namespace stowage::python {
namespace {

namespace py = pybind11;

// JSON requires UTF-8, which names may not be.
std::string TextOf(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

Status SetMicroBatches(MemoryOptimizations& optimizations,
                       std::string_view text, int64_t batch) {
  if (text == "auto") {
    optimizations.micro_batches = MicroBatchesToTry(batch);
    return {};
  }
  int64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, count);
  if (parsed.ec != std::errc() || parsed.ptr != end || count < 1) {
    return InvalidArgumentError("[optimizations] micro-batches are ",
                                Quoted(text),
                                "; expected a number of at least 1, or auto");
  }
  optimizations.micro_batches = {count};
  return {};
}

// Absent: all optimizations. Names of values are set by NameValues.
Result<std::optional<MemoryOptimizations>> ReadOptimizations(
    const Request& request, int64_t batch) {
  if (const auto* all = std::get_if<std::string>(&request.optimizations)) {
    if (*all == "auto") return std::optional<MemoryOptimizations>();
    if (*all == "none") return std::optional(NoOptimizations());
    return InvalidArgumentError("[optimizations] there is no choice ",
                                Quoted(*all),
                                "; expected auto, none, or choices by name");
  }
  MemoryOptimizations optimizations = NoOptimizations();
  for (const auto& [name, choice] :
       std::get<std::map<std::string, std::string>>(request.optimizations)) {
    if (name == "micro_batches") {
      STOWAGE_RETURN_IF_ERROR(SetMicroBatches(optimizations, choice, batch));
      continue;
    }
    const OptimizationInfo* optimization = nullptr;
    std::string names = "micro_batches";
    for (const OptimizationInfo& each : OptimizationTable()) {
      names += StrCat(", ", each.name);
      if (each.name == name) optimization = &each;
    }
    if (optimization == nullptr) {
      return InvalidArgumentError("[optimizations] there is no optimization ",
                                  Quoted(name), "; there are ", names);
    }
    STOWAGE_RETURN_IF_ERROR(optimization->set(optimizations, choice));
  }
  return std::optional(std::move(optimizations));
}

// Sets the values that are never or always recomputed.
Status NameValues(const Request& request, MemoryOptimizations* optimizations) {
  for (const auto& [what, names] :
       {std::pair("recompute_keep", &request.recompute_keep),
        std::pair("recompute_always", &request.recompute_always)}) {
    if (names->empty() || optimizations->recompute != Recompute::kNone)
      continue;
    return InvalidArgumentError(
        "[optimizations] ", what, " names ", Quoted(names->front()),
        ", and nothing runs again by these optimizations; give "
        "\"auto\", or recompute as \"cheap\" or \"auto\"");
  }
  optimizations->always_kept = request.recompute_keep;
  optimizations->always_recomputed = request.recompute_always;
  return {};
}

// A setting of an optimizer: a number, or a flag, which is 0 or 1.
using Setting = std::variant<double*, bool*>;
using Settings = std::vector<std::pair<std::string_view, Setting>>;

// The settings of `optimizer`, by name.
Settings SettingsOf(Optimizer& optimizer) {
  return std::visit(
      [](auto& kind) {
        Settings settings = {{"decay", &kind.decay}};
        if constexpr (requires { kind.momentum; }) {
          settings.emplace_back("momentum", &kind.momentum);
        }
        if constexpr (requires { kind.dampening; }) {
          settings.emplace_back("dampening", &kind.dampening);
        }
        if constexpr (requires { kind.centered; }) {
          settings.emplace_back("centered", &kind.centered);
        }
        if constexpr (requires { kind.alpha; }) {
          settings.emplace_back("alpha", &kind.alpha);
        }
        if constexpr (requires { kind.lambd; }) {
          settings.emplace_back("lambd", &kind.lambd);
          settings.emplace_back("t0", &kind.t0);
        }
        if constexpr (requires { kind.rho; }) {
          settings.emplace_back("rho", &kind.rho);
        }
        if constexpr (requires { kind.eta_minus; }) {
          settings.emplace_back("eta_minus", &kind.eta_minus);
          settings.emplace_back("eta_plus", &kind.eta_plus);
          settings.emplace_back("min_step", &kind.min_step);
          settings.emplace_back("max_step", &kind.max_step);
        }
        if constexpr (requires { kind.lr_decay; }) {
          settings.emplace_back("lr_decay", &kind.lr_decay);
          settings.emplace_back("initial", &kind.initial);
        }
        if constexpr (requires { kind.beta1; }) {
          settings.emplace_back("beta1", &kind.beta1);
          settings.emplace_back("beta2", &kind.beta2);
        }
        if constexpr (requires { kind.beta2_decay; }) {
          settings.emplace_back("beta2_decay", &kind.beta2_decay);
          settings.emplace_back("clip", &kind.clip);
          settings.emplace_back("eps1", &kind.eps1);
          settings.emplace_back("eps2", &kind.eps2);
          settings.emplace_back("by_last_axes", &kind.by_last_axes);
        }
        if constexpr (requires { kind.eps; }) {
          settings.emplace_back("eps", &kind.eps);
        }
        if constexpr (requires { kind.amsgrad; }) {
          settings.emplace_back("amsgrad", &kind.amsgrad);
        }
        if constexpr (requires { kind.momentum_decay; }) {
          settings.emplace_back("momentum_decay", &kind.momentum_decay);
        }
        if constexpr (requires { kind.is_decoupled; }) {
          settings.emplace_back("decoupled", &kind.is_decoupled);
        }
        return settings;
      },
      optimizer);
}

Status SetTo(double value, std::string_view name, const Setting& setting) {
  if (double* const* number = std::get_if<double*>(&setting)) {
    **number = value;
    return {};
  }
  if (value != 0 && value != 1) {
    return InvalidArgumentError("[optimizer] ", name, " is ", value,
                                "; expected True or False");
  }
  *std::get<bool*>(setting) = value == 1;
  return {};
}

Result<Optimizer> WithSettings(Optimizer optimizer,
                               const OptimizerSettings& given) {
  const Settings settings = SettingsOf(optimizer);
  for (const auto& [name, value] : given) {
    const auto setting =
        std::ranges::find(settings, name, &Settings::value_type::first);
    if (setting == settings.end()) {
      std::string names;
      for (const auto& [each, _] : settings) {
        names += StrCat(names.empty() ? "" : ", ", each);
      }
      return InvalidArgumentError("[optimizer] ", OptimizerName(optimizer),
                                  " has no setting ", Quoted(name), "; it has ",
                                  names);
    }
    STOWAGE_RETURN_IF_ERROR(SetTo(value, name, setting->second));
  }
  return optimizer;
}

Result<Optimizer> ReadOptimizer(const Model& model, const Request& request) {
  const bool has_default = !model.defaults.optimizer.empty();
  STOWAGE_ASSIGN_OR_RETURN(
      Optimizer optimizer,
      request.optimizer.empty() && !has_default
          ? Result<Optimizer>(AdamW{})
          : ChooseOptimizer(request.optimizer, model.defaults));
  return WithSettings(std::move(optimizer), request.optimizer_settings);
}

ParamGroup MakeParamGroup(
    std::string pattern, std::optional<double> decay, double lr_scale,
    bool frozen,
    const std::optional<std::pair<std::string, OptimizerSettings>>& optimizer,
    bool maximize, std::string name, const std::vector<std::string>& inputs) {
  const auto reads = [&](std::string_view input) {
    return std::ranges::find(inputs, input) != inputs.end();
  };
  ParamGroup group = {
      .pattern = std::move(pattern),
      .decay = decay,
      .lr_scale = lr_scale,
      .frozen = frozen,
      .maximize = maximize,
      .name = std::move(name),
      .inputs = {reads("lr"), reads("momentum"), reads("decay")}};
  if (optimizer) {
    group.optimizer = ValueOf(WithSettings(
        ValueOf(ParseOptimizer(optimizer->first)), optimizer->second));
  }
  return group;
}

py::dict OptimizersDict() {
  py::dict all;
  for (const NamedOptimizer& named : NamedOptimizers()) {
    Optimizer optimizer = named.optimizer;
    py::dict settings;
    settings["lr"] = DefaultLearningRate(optimizer);
    for (const auto& [name, setting] : SettingsOf(optimizer)) {
      const auto set = [&, key = py::str(std::string(name))](const auto* of) {
        settings[key] = *of;
      };
      std::visit(set, setting);
    }
    all[py::str(std::string(named.name))] = std::move(settings);
  }
  return all;
}

// Requirements whose workspace function, which may own threads, is not destroyed in a forked
// child.
DeviceNeeds OfThisProcess(DeviceNeeds needs) {
  const auto workspace = python::OfThisProcess(
      std::make_unique<WorkspaceFn>(std::move(needs.workspace)));
  needs.workspace = [workspace](const Graph& graph, const Node& node) {
    return (*workspace)(graph, node);
  };
  return needs;
}

py::dict RegionsDict(const RegionBytes& regions) {
  py::dict dict;
  dict["weights"] = regions.weights;
  dict["state"] = regions.state;
  dict["io"] = regions.io;
  dict["activations"] = regions.activations;
  dict["workspace"] = regions.workspace;
  dict["host_state"] = regions.host_state;
  dict["host_offload"] = regions.host_offload;
  return dict;
}

Page PageOf(const PlannedTraining& training) {
  const FittedStep& step = training.plan().step;
  Page page{.title = training.model().name,
            .programs = {DescribeProgram("train", step.graph, step.plan)},
            .budget = training.spec().budget};
  for (const PlannedProgram& program : training.plan().programs) {
    page.programs.push_back(
        DescribeProgram(program.name, program.graph, program.plan));
  }
  return page;
}

Page ComparisonPage(const PlannedTraining& a, const PlannedTraining& b) {
  const FittedStep& first = a.plan().step;
  const FittedStep& second = b.plan().step;
  return {.title = StrCat(a.model().name, " and ", b.model().name),
          .programs = {DescribeProgram("first", first.graph, first.plan),
                       DescribeProgram("second", second.graph, second.plan)},
          .compares = true};
}

Report ReportOf(const PlannedTraining& training) {
  const FittedStep& step = training.plan().step;
  return MakeReport(step.graph, step.plan);
}

void BindRequest(py::module_& module) {
  py::class_<ParamGroup>(module, "ParamGroup")
      .def(py::init(&MakeParamGroup), py::arg("pattern"), py::arg("decay"),
           py::arg("lr_scale"), py::arg("frozen"), py::arg("optimizer"),
           py::arg("maximize"), py::arg("name"), py::arg("inputs"));
  py::class_<Request>(module, "Request")
      .def(py::init<>())
      .def_readwrite("budget", &Request::budget)
      .def_readwrite("optimizations", &Request::optimizations)
      .def_readwrite("optimizer", &Request::optimizer)
      .def_readwrite("optimizer_settings", &Request::optimizer_settings)
      .def_readwrite("clip_norm", &Request::clip_norm)
      .def_readwrite("ema", &Request::ema)
      .def_readwrite("loss_scale", &Request::loss_scale)
      .def_readwrite("groups", &Request::groups)
      .def_readwrite("recompute_keep", &Request::recompute_keep)
      .def_readwrite("recompute_always", &Request::recompute_always)
      .def_readwrite("allow_batch_change", &Request::allow_batch_change)
      .def_readwrite("plan_cache", &Request::plan_cache)
      .def_readwrite("evaluates", &Request::evaluates);
}

// A column of the table of buffers.
std::vector<int64_t> Column(const py::object& array, const char* name) {
  const ArrayView view(array, name);
  const int64_t count = view.type().shape.num_elements();
  view.CheckIs({DType::kI64, {count}});
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::ranges::copy(view.data(),
                    std::as_writable_bytes(std::span(numbers)).begin());
  return numbers;
}

py::object ToArray(std::span<const int64_t> numbers) {
  return ToNumpy({DType::kI64, {static_cast<int64_t>(numbers.size())}},
                 std::as_bytes(numbers));
}

struct Packed {
  packing::Packing packing;
  std::vector<packing::Violation> violations;
  packing::LowerBound bound;
  std::string svg;
};

Result<Packed> PackAndJudge(const packing::Problem& problem,
                            const packing::PackOptions& options) {
  STOWAGE_ASSIGN_OR_RETURN(packing::Packing found,
                           packing::Pack(problem, options));
  return Packed{.packing = found,
                .violations = packing::Validate(problem, found.solution),
                .bound = packing::ComputeLowerBound(problem),
                .svg = ToSvg(problem, found)};
}

py::dict Pack(const py::object& lower, const py::object& upper,
              const py::object& size,
              const std::optional<py::object>& alignment,
              std::optional<Bytes> capacity, const std::string& packer,
              std::optional<double> seconds) {
  const std::vector<int64_t> lowers = Column(lower, "lower");
  const std::vector<int64_t> uppers = Column(upper, "upper");
  const std::vector<int64_t> sizes = Column(size, "size");
  const size_t count = sizes.size();
  const std::vector<int64_t> alignments = alignment
                                              ? Column(*alignment, "alignment")
                                              : std::vector<int64_t>(count, 1);
  if (lowers.size() != count || uppers.size() != count ||
      alignments.size() != count) {
    Raise("InvalidArgument",
          StrCat("[pack] columns differ in length: lower ", lowers.size(),
                 ", upper ", uppers.size(), ", size ", count, ", alignment ",
                 alignments.size(), "; expected a number for each buffer"));
  }
  packing::Problem problem{.capacity = capacity};
  for (size_t i = 0; i < count; ++i) {
    problem.buffers.push_back({.lower = lowers[i],
                               .upper = uppers[i],
                               .size = sizes[i],
                               .alignment = alignments[i]});
  }
  packing::PackOptions options{.packer = ValueOf(packing::ParsePacker(packer))};
  constexpr double kLongest = 1e9;  // a clock counts so many
  if (seconds && !(*seconds >= 0 && *seconds <= kLongest)) {
    Raise("InvalidArgument",
          StrCat("[pack] seconds are ", *seconds,
                 "; expected a number from 0 to ", kLongest));
  }
  if (seconds) {
    options.deadline =
        std::chrono::steady_clock::now() +
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(
            std::chrono::duration<double>(*seconds));
  }
  const Packed packed =
      WithoutGil([&] { return PackAndJudge(problem, options); });
  std::vector<std::string> violations;
  for (const packing::Violation& violation : packed.violations) {
    violations.push_back(violation.text);
  }
  std::vector<int64_t> live;
  for (const size_t i : packing::LiveAt(problem, packed.bound.time)) {
    live.push_back(static_cast<int64_t>(i));
  }
  py::dict result;
  result["offsets"] = ToArray(packed.packing.solution.offsets);
  result["height"] = packed.packing.solution.height;
  result["lower_bound"] = packed.packing.lower_bound;
  result["optimal"] = packed.packing.optimal;
  result["packer"] = packed.packing.packer;
  result["violations"] = violations;
  result["bound_time"] = packed.bound.time;
  result["bound_buffers"] = ToArray(live);
  result["svg"] = packed.svg;
  return result;
}

}  // namespace

Result<TrainingSpec> SpecOf(const Model& model, const Request& request) {
  TrainingSpec spec{.model = model.train, .batch = model.batch};
  STOWAGE_ASSIGN_OR_RETURN(spec.training.optimizer,
                           ReadOptimizer(model, request));
  spec.training.clip_norm = request.clip_norm;
  spec.training.ema = request.ema;
  STOWAGE_ASSIGN_OR_RETURN(spec.training.loss_scaling,
                           ChooseLossScaling(request.loss_scale, model.dtype));
  if (!model.frozen.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(const Graph graph, model.train(model.batch));
    for (const std::string& name : model.frozen) {
      const std::optional<ValueId> id = graph.Find(name);
      if (!id || graph.value(*id).role != Role::kParam) continue;
      spec.training.groups.push_back({.pattern = name, .frozen = true});
    }
  }
  spec.training.groups.insert(spec.training.groups.end(),
                              request.groups.begin(), request.groups.end());
  if (request.evaluates && model.evaluate) {
    spec.programs.push_back(
        {.name = "evaluate", .model = model.evaluate, .batch = model.batch});
  }
  if (request.evaluates && (model.validate || model.evaluate)) {
    spec.programs.push_back({.name = "validate",
                             .model = model.Validation(),
                             .batch = model.batch,
                             .is_optional = true});
  }
  spec.training.allow_batch_change = request.allow_batch_change;
  spec.budget = request.budget;
  STOWAGE_ASSIGN_OR_RETURN(spec.optimizations,
                           ReadOptimizations(request, model.batch));
  if (!request.plan_cache.empty()) spec.cache = PlanCache(request.plan_cache);
  return spec;
}

Result<std::shared_ptr<PlannedTraining>> PlannedTraining::Make(
    Model model, const Request& request, DeviceNeeds needs) {
  STOWAGE_ASSIGN_OR_RETURN(TrainingSpec spec, SpecOf(model, request));
  if (IsC(needs)) {
    STOWAGE_ASSIGN_OR_RETURN(spec, SpecOfC(std::move(spec)));
  }
  STOWAGE_ASSIGN_OR_RETURN(
      TrainingPlanner planner,
      TrainingPlanner::Make(std::move(spec), std::move(needs)));
  if (!request.recompute_keep.empty() || !request.recompute_always.empty()) {
    // The planner has set the default optimizations of the model.
    TrainingSpec named = planner.spec();
    STOWAGE_RETURN_IF_ERROR(NameValues(request, &*named.optimizations));
    DeviceNeeds device = named.planning.device;
    STOWAGE_ASSIGN_OR_RETURN(
        planner, TrainingPlanner::Make(std::move(named), std::move(device)));
  }
  STOWAGE_ASSIGN_OR_RETURN(TrainingPlan plan, planner.Plan());
  return std::shared_ptr<PlannedTraining>(new PlannedTraining(
      std::move(model), std::move(planner), std::move(plan)));
}

template <typename F>
auto PlannedTraining::Search(F&& search) {
  bool is_cut_off = false;
  auto result = ResultWithoutGil([&]() -> decltype(search(planner_.step())) {
    is_cut_off = !turns_.Take();
    if (is_cut_off) return Error{ErrorCode::kInvalidArgument, {}};
    auto found = search(planner_.step());
    turns_.Give();
    return found;
  });
  if (is_cut_off) {
    Raise("Forked",
          StrCat("[plan] another thread was searching in this plan when "
                 "process ",
                 getpid(), " was forked, which does not have that thread; ",
                 "make the plan in the child"));
  }
  return ValueOf(std::move(result));
}

void BindPlans(py::module_& module) {
  BindRequest(module);
  using Shared = std::shared_ptr<PlannedTraining>;
  py::class_<PlannedTraining, Shared>(module, "Plan")
      .def("figures",
           [](const PlannedTraining& self) {
             return TextOf(FiguresJson(ReportOf(self), 20));
           })
      .def("regions",
           [](const PlannedTraining& self) {
             return RegionsDict(self.plan().step.plan.regions);
           })
      .def("price",
           [](const PlannedTraining& self) {
             const Price& price = self.plan().step.price;
             py::dict dict;
             dict["micro_batches"] = price.micro_batches;
             dict["recomputed_nodes"] = price.recomputed_nodes;
             dict["extra_percent"] = price.extra_percent;
             dict["offloaded_values"] = price.host.values;
             dict["offload_bytes_per_step"] = price.host.bytes_per_step;
             return dict;
           })
      .def("recomputed",
           [](const PlannedTraining& self) {
             const FittedStep& step = self.plan().step;
             py::list all;
             for (const RecomputedNode& recomputed : step.recomputed) {
               py::dict one;
               one["name"] = recomputed.name;
               one["bytes_freed"] = recomputed.freed;
               one["flops_percent"] = 100 * recomputed.flops / step.flops;
               one["times"] = recomputed.times;
               all.append(std::move(one));
             }
             return all;
           })
      .def(
          "arena_bytes",
          [](const PlannedTraining& self) { return self.plan().arena_bytes(); })
      .def("host_bytes",
           [](const PlannedTraining& self) { return self.plan().host_bytes(); })
      .def("budget",
           [](const PlannedTraining& self) { return self.spec().budget; })
      .def("batch",
           [](const PlannedTraining& self) { return self.spec().batch; })
      .def("optimizer",
           [](const PlannedTraining& self) {
             return std::string(OptimizerName(self.spec().training.optimizer));
           })
      .def("learning_rate",
           [](const PlannedTraining& self) {
             const TrainingDefaults& defaults = self.model().defaults;
             const Optimizer& optimizer = self.spec().training.optimizer;
             return defaults.schedule.peak > 0 && IsOfModel(optimizer, defaults)
                        ? defaults.schedule.peak
                        : DefaultLearningRate(optimizer);
           })
      .def("cache_use",
           [](const PlannedTraining& self) {
             return std::string(CacheUseName(self.plan().cache));
           })
      .def("cache_note",
           [](const PlannedTraining& self) { return self.plan().cache_note; })
      .def("smallest_budget",
           [](PlannedTraining& self) {
             return self.Search(
                 [](StepPlanner& planner) { return planner.SmallestBudget(); });
           })
      .def("frontier",
           [](PlannedTraining& self) {
             const tools::FrontierTexts texts =
                 self.Search([](StepPlanner& planner) {
                   return tools::DescribeFrontier(planner.fitter(), {});
                 });
             return std::pair(TextOf(texts.json), texts.svg);
           })
      .def("text",
           [](const PlannedTraining& self) { return ToText(ReportOf(self)); })
      .def("json",
           [](const PlannedTraining& self) {
             const FittedStep& step = self.plan().step;
             return PlanToJson(
                 step.plan, step.graph,
                 {.budget = self.spec().budget,
                  .optimizations = ToText(*self.spec().optimizations),
                  .device = self.spec().planning.device.device});
           })
      .def(
          "traffic",
          [](const PlannedTraining& self,
             const std::optional<std::string>& device) {
            std::optional<RatedDevice> rates;
            if (device) rates = ValueOf(ParseRatedDevice(*device));
            const Traffic traffic = CountTraffic(self.plan().step.graph, rates);
            return std::pair(TextOf(TrafficJson(traffic)), ToText(traffic));
          },
          py::arg("device"))
      .def("to_c", &Compile, py::arg("prefix"), py::arg("header"),
           py::arg("caller_arena"), py::arg("weights"))
      .def(
          "html",
          [](const PlannedTraining& self,
             const std::vector<std::pair<int64_t, double>>& losses) {
            Page page = PageOf(self);
            for (const auto& [step, loss] : losses) {
              page.losses.push_back({.step = step, .loss = loss});
            }
            return ToHtml(page);
          },
          py::arg("losses"))
      .def(
          "comparison_text",
          [](const PlannedTraining& self, const PlannedTraining& other) {
            const Report a = ReportOf(self), b = ReportOf(other);
            return ComparisonText({"first", &a}, {"second", &b});
          },
          py::arg("other"))
      .def(
          "comparison_json",
          [](const PlannedTraining& self, const PlannedTraining& other) {
            const Report a = ReportOf(self), b = ReportOf(other);
            return TextOf(ComparisonJson({"first", &a}, {"second", &b}));
          },
          py::arg("other"))
      .def(
          "comparison_html",
          [](const PlannedTraining& self, const PlannedTraining& other) {
            return ToHtml(ComparisonPage(self, other));
          },
          py::arg("other"));
  module.def(
      "make_plan",
      [](const Model& model, const Request& request, const std::string& device,
         int threads, const std::string& cpu_target) {
        DeviceNeeds needs =
            device == "c" ? NeedsOfDeviceC(threads, cpu_target)
                          : OfThisProcess(ValueOf(NeedsOfDevice(
                                device, model.dtype, threads, cpu_target)));
        auto made = ResultWithoutGil([&] {
          return PlannedTraining::Make(model, request, std::move(needs));
        });
        if (!made.ok()) model.Raise(made.error());
        return *std::move(made);
      },
      py::arg("model"), py::arg("request"), py::arg("device"),
      py::arg("threads"), py::arg("cpu_target"));
  module.def("cpu_target",
             [] { return std::string(ValueOf(cpu::FindCpuTarget())->name); });
  module.def(
      "parse_bytes",
      [](const std::string& text) { return ValueOf(ParseBytes(text)); },
      py::arg("text"));
  module.def(
      "format_bytes", [](Bytes bytes) { return FormatBytes(bytes); },
      py::arg("count"));
  module.def(
      "find_largest",
      [](const py::function& need_of, Bytes budget, int64_t multiple,
         const py::function& make) {
        const Largest largest = ValueOf(FindLargest(
            [&](int64_t value) -> Result<Bytes> {
              const py::object need = need_of(value);
              if (!py::isinstance<py::str>(need)) return need.cast<Bytes>();
              return Error{ErrorCode::kInvalidArgument,
                           need.cast<std::string>()};
            },
            budget, {.multiple = multiple}));
        return make(largest.value, largest.need,
                    largest.above ? py::cast(largest.above->value)
                                  : py::object(py::none()),
                    largest.above && largest.above->need.ok()
                        ? py::cast(*largest.above->need)
                        : py::object(py::none()),
                    largest.above && !largest.above->need.ok()
                        ? py::cast(largest.above->need.error().message)
                        : py::object(py::none()));
      },
      py::arg("need_of"), py::arg("budget"), py::arg("multiple"),
      py::arg("make"));
  module.def("plan_cache_folder", [] { return DefaultPlanCacheFolder(); });
  module.def("optimizers", &OptimizersDict);
  module.def("pack", &Pack, py::arg("lower"), py::arg("upper"), py::arg("size"),
             py::arg("alignment"), py::arg("capacity"), py::arg("packer"),
             py::arg("seconds"));
}

}  // namespace stowage::python
