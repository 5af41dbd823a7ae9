// stowage plan places every byte of a training step before it runs.

#include "planner/plan.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/canonicalize/canonicalize.h"
#include "planner/certificate.h"
#include "planner/fit/fit.h"
#include "planner/plan_memory.h"
#include "report/report.h"
#include "report/text.h"
#include "tools/budget.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/frontier.h"
#include "tools/model_flags.h"
#include "tools/onnx_flags.h"
#include "tools/options.h"
#include "tools/plan_subject.h"
#include "tools/progress.h"
#include "train/device.h"
#include "train/step_memory.h"
#include "train/train.h"

namespace stowage::tools {
namespace {

using Json = nlohmann::ordered_json;

// Keeps a value until the process ends: freeing a large step value by value takes as long as
// reading it.
template <typename T>
T& UntilExit(T value) {
  static auto& kept = *new std::vector<std::unique_ptr<T>>;
  return *kept.emplace_back(std::make_unique<T>(std::move(value)));
}

// The memory and traffic of ranks; times are predicted only for a given link.
Json RanksJson(const Subject& subject, const Graph& step, Bytes arena) {
  const bool trains = subject.training.has_value();
  const Bytes wire = WireBytes(step);
  const std::optional<Link>& link = subject.ranks.link;
  Json json = Json::object();
  json["ranks"] = subject.ranks.ranks;
  json["shard"] = trains
                      ? Json(ShardingName(subject.training->spec().ranks.shard))
                      : Json();
  json["arena_bytes_per_rank"] = arena;
  json["wire_bytes_per_step"] = wire;
  json["link"] = link ? Json(link->name) : Json();
  json["wire_seconds_per_step"] =
      link ? Json(static_cast<double>(wire) / link->bytes_per_second) : Json();
  return json;
}

std::string RanksText(const Subject& subject, const Graph& step) {
  const RankPlan& ranks = subject.ranks;
  if (ranks.ranks == 1) return "";
  const Bytes wire = WireBytes(step);
  std::string text = StrCat(
      "this is each of ", ranks.ranks, " ranks, sharding ",
      ShardingName(subject.training->spec().ranks.shard), "; it sends ",
      FormatBytes(wire), " (", wire, " bytes) a step, and receives as much");
  if (ranks.link) {
    text += StrCat(
        ", in ",
        Fixed(static_cast<double>(wire) / ranks.link->bytes_per_second, 3),
        " s over ", ranks.link->name, " if that carries nothing else");
  }
  return text + "\n";
}

Json Describe(Subject& subject, const FittedStep& step,
              const std::optional<Predicted>& predicted, const Report& report) {
  const Price& price = step.price;
  const auto percent = [&](double part) {
    return step.flops > 0 ? 100 * part / step.flops : 0.0;
  };
  Json json = Json::object();
  if (const auto& spec = subject.spec) {
    json["model"] = spec->info.name;
    json["params"] = report.params;
    json["batch"] = *spec->options.batch;
    json["seq"] = spec->options.seq ? Json(*spec->options.seq) : Json();
    json["dtype"] = DTypeName(spec->options.dtype);
    json["optimizer"] = OptimizerName(spec->training.training.optimizer);
  } else {
    json["model"] = report.graph_name;
    json["params"] = report.params;
    const auto& training = subject.training;
    json["batch"] = training ? Json(training->spec().batch) : Json();
    json["seq"] = nullptr;
    json["dtype"] = nullptr;
    json["optimizer"] =
        training ? Json(OptimizerName(training->spec().training.optimizer))
                 : Json();
  }
  json.update(FiguresJson(report, 20));
  json["order_bound_bytes"] =
      step.order_bound ? Json(*step.order_bound) : Json();
  const MemoryOptimizations& optimizations =
      subject.planner().question().fit.optimizations;
  json["recompute"] = RecomputeName(optimizations.recompute);
  json["recomputed_nodes"] = price.recomputed_nodes;
  json["recompute_flops_percent"] = price.extra_percent;
  json["recompute_least_flops_percent"] =
      predicted ? Json() : Json(LeastPercent(step));
  json["recompute_least_time_percent"] =
      predicted ? Json(predicted->least_percent) : Json();
  json["recomputed"] = Json::array();
  for (const RecomputedNode& recomputed : step.recomputed) {
    json["recomputed"].push_back({{"name", recomputed.name},
                                  {"bytes_freed", recomputed.freed},
                                  {"flops_percent", percent(recomputed.flops)},
                                  {"times", recomputed.times}});
  }
  json["micro_batches"] = price.micro_batches;
  json["offload"] = OffloadName(optimizations.offload);
  json["tiles"] = TilesName(optimizations.tiles);
  json["tile_rows"] = price.tile_rows > 0 ? Json(price.tile_rows) : Json();
  json["offloaded_values"] = price.host.values;
  json["offload_bytes_per_step"] = price.host.bytes_per_step;
  json.update(RanksJson(subject, step.graph, report.arena));
  json.update(PredictedJson(predicted));
  const std::optional<Bytes> budget = subject.planner().question().budget;
  json["budget_bytes"] = budget ? Json(*budget) : Json();
  json["fits"] = !budget || report.arena <= *budget;
  json["bytes_per_param"] =
      subject.training
          ? ParamBytesJson(MeasureParamBytes(step.graph, step.plan))
          : Json();
  return json;
}

// The passes of the planner; empty for a cached plan.
Json PassesJson(const std::vector<PassReport>& passes) {
  Json json = Json::array();
  for (const PassReport& pass : passes) {
    json.push_back({{"name", pass.name},
                    {"applied", pass.applied},
                    {"changed", pass.changed},
                    {"arena_bytes", pass.arena},
                    {"seconds", pass.seconds}});
  }
  return json;
}

std::string PassesText(const std::vector<PassReport>& passes) {
  if (passes.empty()) {
    return "no pass ran: the plan was found in the plan cache\n";
  }
  std::string text =
      "pass           applied  changed         arena bytes     seconds\n";
  for (const PassReport& pass : passes) {
    text +=
        StrCat(PadRight(pass.name, 13), PadLeft(pass.applied ? "yes" : "no", 9),
               PadLeft(pass.changed ? "yes" : "no", 9),
               PadLeft(StrCat(pass.arena), 20),
               PadLeft(Fixed(pass.seconds, 3), 12), "\n");
  }
  return text;
}

// The canonical ops that the import has found, and near misses.
std::string CanonicalText(const Canonicalized& canonical) {
  std::string text = "canonical ops:";
  for (const auto& [pattern, count] : canonical.found) {
    text += StrCat(" ", pattern, " ", count);
  }
  if (canonical.found.empty()) text += " none";
  text += "\n";
  for (const std::string& miss : canonical.misses) {
    text += StrCat("  not taken for ", WithoutControls(miss), "\n");
  }
  return text;
}

nlohmann::ordered_json CanonicalJson(const Canonicalized& canonical) {
  return {{"found", canonical.found}, {"misses", canonical.misses}};
}

int PrintFrontier(const PlanFlags& flags, StepFitter& fitter,
                  const std::optional<OpTimes>& times, WorkProgress& progress) {
  const Result<FrontierTexts> texts = DescribeFrontier(fitter, times);
  progress.Clear();
  if (!texts.ok()) return Fail(texts.error());
  if (!flags.svg.empty()) {
    const Status written = WriteOutput(flags.svg, texts->svg);
    if (!written.ok()) return Fail(written.error());
  }
  if (flags.json) {
    PrintJson(texts->json);
  } else {
    std::cout << texts->table;
  }
  return kExitDone;
}

// Writes the certificate that no order of the unmodified step fits the budget. If the bounds do
// not prove that, prints a note instead.
Status WriteRefusal(const PlanFlags& flags, StepPlanner& planner) {
  STOWAGE_ASSIGN_OR_RETURN(const FittedStep given, planner.fitter().AsGiven());
  const Result<std::string> text =
      CertifyRefusal(given.graph, given.plan, *planner.question().budget);
  if (!text.ok()) {
    std::cerr << "stowage: " << text.error().message << std::endl;
    return {};
  }
  return WriteOutput(flags.certificate, *text);
}

int RefusePlan(const PlanFlags& flags, Subject& subject, WorkProgress& progress,
               const Error& error) {
  if (error.code != ErrorCode::kBudgetTooSmall) return Fail(error);
  StepPlanner& planner = subject.planner();
  if (!flags.certificate.empty()) {
    progress.Clear();
    const Status written = WriteRefusal(flags, planner);
    if (!written.ok()) return Fail(written.error());
  }
  if (!flags.json) {
    const Error all =
        WithSmallestBudgets(planner.fitter(), subject.batch(), error);
    progress.Clear();
    return Fail(all);
  }
  const Result<FittedStep> given = planner.fitter().AsGiven();
  if (!given.ok()) return Fail(given.error());
  const auto predicted =
      Predict(planner.question().op_times, planner.fitter(), *given);
  if (!predicted.ok()) return Fail(predicted.error());
  Json json = Describe(subject, *given, *predicted,
                       MakeReport(given->graph, given->plan));
  Error all = error;
  const Result<Json> refusal =
      RefusalJson(planner.fitter(), subject.batch(), &all);
  progress.Clear();
  if (!refusal.ok()) return Fail(refusal.error());
  json.update(*refusal);
  PrintJson(json);
  return Fail(all);
}

// A clause with the number of ranks; "" for one.
std::string RanksOf(const RankPlan& plan) {
  return plan.ranks == 1 ? "" : StrCat(", each of ", plan.ranks, " ranks");
}

int RunPlan(PlanFlags flags) {
  const int given = !flags.graph.empty() + !flags.model.model.empty() +
                    !flags.onnx.file.empty();
  if (given != 1) {
    return Fail({ErrorCode::kInvalidArgument,
                 given == 0 ? "[plan] nothing to plan; give --model, --onnx or "
                              "--graph"
                            : "[plan] --model, --onnx and --graph exclude each "
                              "other; give one"});
  }
  const Result<packing::PackOptions> packer = ReadPackerFlags(flags.packer);
  if (!packer.ok()) return Fail(packer.error());
  const Result<DType> dtype = ParseDType(flags.model.dtype);
  if (!dtype.ok()) return Fail(dtype.error());
  const Result<DeviceNeeds> device = NeedsOfDevice(
      flags.device, *dtype, flags.model.threads, flags.cpu_target);
  if (!device.ok()) return Fail(device.error());
  std::optional<RatedDevice> rates;
  if (!flags.roofline.empty()) {
    const Result<RatedDevice> named = ParseRatedDevice(flags.roofline);
    if (!named.ok()) return Fail(named.error());
    rates = *named;
  }
  if (flags.list_params) {
    const Result<OnnxStep> step = ReadOnnxStep(flags.onnx, flags.model);
    if (!step.ok()) return Fail(step.error());
    const Result<std::string> list = ListParams(*step, flags.onnx, flags.json);
    if (!list.ok()) return Fail(list.error());
    std::cout << *list;
    return kExitDone;
  }
  const bool counts_traffic = flags.traffic || rates;
  // Before any file is claimed, since a folder created later could take its place.
  if (!flags.model.plan_cache.empty()) {
    const Status noted = NoteFolder(flags.model.plan_cache);
    if (!noted.ok()) return Fail(noted.error());
  }
  const Status tried = TryOutputs({{"output", flags.output},
                                   {"svg", flags.svg},
                                   {"html", flags.html},
                                   {"certificate", flags.certificate}},
                                  {{"graph", flags.graph},
                                   {"onnx", flags.onnx.file},
                                   {"op-times", flags.model.op_times}});
  if (!tried.ok()) return Fail(tried.error());
  const auto start = std::chrono::steady_clock::now();
  std::function<void()> on_choice;
  const std::shared_ptr<WorkProgress> progress =
      WorkProgress::OfPlanning(&on_choice);
  const PlanOptions options = {.packer = packer->packer,
                               .deadline = packer->deadline,
                               .device = *device};
  std::optional<Largest> largest;
  std::optional<Subject> of_largest;
  if (!flags.max.empty()) {
    Result<Largest> found =
        ReadLargest(options, on_choice, &flags, &of_largest);
    progress->Clear();
    if (!found.ok()) {
      if (flags.json && found.error().code == ErrorCode::kBudgetTooSmall) {
        PrintJson({{"largest", nullptr}, {"fits", false}});
      }
      return Fail(found.error());
    }
    largest = *std::move(found);
  }
  Result<Subject>& subject =
      UntilExit(of_largest ? Result<Subject>(*std::move(of_largest))
                           : ReadSubject(flags, options, on_choice));
  if (!subject.ok()) return Fail(subject.error());
  if (subject->planner().question().fit.optimizations.offload ==
          OffloadChoice::kDisk &&
      IsForGpu(flags.device, *dtype)) {
    return Fail(OffloadsToHostOnly());
  }
  const std::optional<OpTimes> times = subject->planner().question().op_times;
  const std::optional<Bytes> budget = subject->planner().question().budget;
  if (flags.pareto) {
    return PrintFrontier(flags, subject->planner().fitter(), times, *progress);
  }

  if (flags.fit_optimizer) {
    if (!subject->training) {
      return Fail(
          {ErrorCode::kInvalidArgument,
           "[plan] --fit-optimizer is for training steps; give --model, "
           "or --onnx with --loss"});
    }
    const TrainingSpec& spec = subject->training->spec();
    const auto fits = FitOptimizers(spec, *device);
    progress->Clear();
    PrintOptimizerFits(fits, spec.budget, flags.json);
    return kExitDone;
  }

  const Result<PlannedStep>& planned = UntilExit(PlanSharded(*subject));
  progress->Clear();
  if (!planned.ok()) {
    return RefusePlan(flags, *subject, *progress, planned.error());
  }
  StepPlanner& planner = subject->planner();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  if (!planned->cache_note.empty()) {
    std::cerr << planned->cache_note << std::endl;
  }
  const Result<Bytes> smallest = planner.SmallestBudget();
  progress->Clear();
  if (!smallest.ok()) return Fail(smallest.error());

  const FittedStep& step = planned->step;
  if (!flags.output.empty()) {
    const Status written = WriteOutput(
        flags.output,
        PlanToJson(
            step.plan, step.graph,
            {.budget = budget,
             .optimizations = ToText(planner.question().fit.optimizations),
             .device = StrCat(device->device, RanksOf(subject->ranks))}));
    if (!written.ok()) return Fail(written.error());
  }
  if (!flags.certificate.empty()) {
    const Status written =
        WriteOutput(flags.certificate, CertifyPlan(step.graph, step.plan));
    if (!written.ok()) return Fail(written.error());
  }
  const Report& report = UntilExit(MakeReport(step.graph, step.plan));
  if (!flags.svg.empty()) {
    const Status written = WriteOutput(flags.svg, ToSvg(report));
    if (!written.ok()) return Fail(written.error());
  }
  if (!flags.html.empty()) {
    const Status written = WriteOutput(
        flags.html, ToHtml({.title = report.graph_name,
                            .programs = {DescribeProgram(
                                report.graph_name, step.graph, step.plan)},
                            .budget = budget}));
    if (!written.ok()) return Fail(written.error());
  }
  const auto predicted = Predict(times, planner.fitter(), step);
  if (!predicted.ok()) return Fail(predicted.error());
  if (flags.json) {
    Json json = Describe(*subject, step, *predicted, report);
    json["minimum_budget_bytes"] = *smallest;
    if (largest) json["largest"] = LargestJson(flags.max, *largest);
    if (flags.explain) json["passes"] = PassesJson(step.passes);
    if (subject->canonical) {
      json["canonical"] = CanonicalJson(*subject->canonical);
    }
    if (counts_traffic) {
      json["traffic"] = TrafficJson(CountTraffic(step.graph, rates));
    }
    json["cache"] = CacheUseName(planned->cache);
    json["plan_seconds"] = seconds;
    json["valid"] = true;  // checked by the planner
    PrintJson(json);
    return kExitDone;
  }
  if (largest) std::cout << LargestText(flags.max, *largest);
  std::cout << ToText(report);
  if (step.order_bound) {
    std::cout << "\nno order of the nodes needs less than "
              << FormatBytes(*step.order_bound)
              << (*step.order_bound == report.arena
                      ? ", so this one is optimal\n"
                      : "\n");
  }
  if (flags.explain) std::cout << "\n" << PassesText(step.passes);
  if (subject->canonical) {
    std::cout << "\n" << CanonicalText(*subject->canonical);
  }
  const std::string ranks = RanksText(*subject, step.graph);
  if (!ranks.empty()) std::cout << "\n" << ranks;
  if (counts_traffic) {
    std::cout << "\n" << ToText(CountTraffic(step.graph, rates));
  }
  const std::string fitting = FittedText(step, *predicted);
  if (!fitting.empty()) std::cout << "\n" << fitting;
  if (subject->training) {
    std::cout << BatchChangesText(*subject->training, step);
  }
  if (budget) {
    std::cout << "\nfits the budget of " << FormatBytes(*budget) << ", "
              << FormatBytes(*budget - report.arena) << " to spare\n";
  }
  std::cout << "\nplanned in " << Fixed(seconds, 3) << " s"
            << (planned->cache == CacheUse::kHit ? ", found in the plan cache"
                                                 : "")
            << "; smallest budget that works: " << FormatBytes(*smallest)
            << " (" << *smallest << " bytes)\n";
  return kExitDone;
}

}  // namespace

void AddPlan(Program& program) {
  Options options = program.AddSubcommand(
      "plan", "Plan the memory of a training step",
      "stowage plan --model gpt2-124m --batch 4 --seq 1024 --budget 8GiB");
  const auto flags = std::make_shared<PlanFlags>();
  options.Group("model");
  options.Add("--model", &flags->model.model,
              "A name that `stowage models` lists");
  AddModelOptions(options, &flags->model);
  AddLoraOptions(options, &flags->model);
  AddOnnxOptions(options, &flags->onnx);
  options.Group("model");
  options.AddFlag(
      "--stand-ins", &flags->onnx.stand_ins,
      "Plan unknown ops with the shapes that an ONNX file declares");
  AddPackerOptions(options, &flags->packer);
  AddRankOptions(options, &flags->ranks);
  options.Group("run");
  options.Add("--device", &flags->device,
              "Device to plan for: cpu or cuda; default: cuda for bf16 and "
              "f16, else cpu");
  options.Add("--cpu-target", &flags->cpu_target,
              "CPU target to plan for, one that `stowage --version` lists; "
              "default: the one of this process");
  options.Group("model");
  options.Add("--graph", &flags->graph,
              "Plan the graph in this file (text form) instead of a model's "
              "training step");
  options.AddFlag("--train", &flags->train,
                  "Plan a training step; the default for --model, and for "
                  "--onnx with --loss");
  options.Group("output");
  options.AddFlag("--pareto", &flags->pareto,
                  "Print the cost of every budget instead of a plan");
  options.AddFlag("--fit-optimizer", &flags->fit_optimizer,
                  "Print the memory of the step with each optimizer, and "
                  "whether it fits the budget, instead of a plan");
  options.Exclude("--fit-optimizer", "--pareto");
  options.Add("--max", &flags->max,
              "Plan the largest batch, seq or lora-rank that fits the budget, "
              "and print what the next one needs");
  for (const char* const of_given : {"--pareto", "--fit-optimizer"}) {
    options.Exclude("--max", of_given);
  }
  options.AddOutput(
      "--svg", &flags->svg,
      "Write an SVG image of the plan, or of --pareto, to this file");
  options.AddOutput("--html", &flags->html,
                    "Write the plan to this file as an interactive page");
  options.AddFlag(
      "--explain", &flags->explain,
      "Print the planner's passes, with the arena after each and the time; for "
      "an ONNX file also the canonical ops that were matched, and near misses");
  options.AddFlag("--list-params", &flags->list_params,
                  "List the tensors of an ONNX file instead of planning: those "
                  "that are trained, and why others are not");
  options.AddFlag("--traffic", &flags->traffic,
                  "Print the memory traffic of a step by families of ops");
  options.Add("--roofline", &flags->roofline,
              "Also print a lower bound of the time on a100, h100, h200, "
              "rtx4090 or rtx5090, or at GB/s:GFLOP/s");
  options.AddFlag("--json", &flags->json, "Print one JSON object");
  options.AddOutput("-o,--output", &flags->output,
                    "Write the plan and its graph to this file");
  options.AddOutput("--certificate", &flags->certificate,
                    "Write a certificate of the plan, or of the refusal of the "
                    "budget, to this file");
  for (const char* const of_plan : {"--output", "--certificate", "--html",
                                    "--explain", "--traffic", "--roofline"}) {
    options.Exclude("--pareto", of_plan);
    options.Exclude("--fit-optimizer", of_plan);
    options.Exclude("--list-params", of_plan);
  }
  for (const char* const other :
       {"--pareto", "--fit-optimizer", "--svg", "--budget", "--fit",
        "--recompute", "--offload", "--tiles", "--order", "--micro-batches",
        "--op-times", "--packer", "--time-limit", "--ranks", "--threads",
        "--cpu-target", "--plan-cache", "--no-plan-cache", "--max"}) {
    options.Exclude("--list-params", other);
  }
  // The frontier covers all budgets.
  options.Exclude("--pareto", "--budget");
  for (const char* const of_one :
       {"--svg", "--optimizer", "--weight-decay", "--momentum"}) {
    options.Exclude("--fit-optimizer", of_one);
  }
  options.ApplyTo({"--model"}, {"--dtype", "--seq"});
  options.ApplyTo({"--onnx"}, {"--dim", "--shape", "--loss", "--stand-ins",
                               "--trainable", "--list-params"});
  options.ApplyTo({"--loss"}, {"--freeze"});
  options.ApplyTo({"--model", "--onnx"}, {"--batch", "--max"});
  options.ApplyTo({"--model", "--loss"}, OptionsOfTraining());
  options.OnRun([flags] { return RunPlan(*flags); });
}

}  // namespace stowage::tools
