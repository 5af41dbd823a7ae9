// stowage plan: where every byte of a training step goes, before it runs.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <vector>

#include "base/strings.h"
#include "ir/text.h"
#include "planner/fit/pieces/pieces.h"
#include "planner/fit/offload/offload.h"
#include "planner/fit/offload/offload_plan.h"
#include "planner/fit/op_times.h"
#include "planner/plan_memory.h"
#include "planner/fit/recompute/recompute.h"
#include "planner/validate_plan.h"
#include "report/format.h"
#include "report/report.h"
#include "tools/budget.h"
#include "tools/command.h"
#include "tools/device.h"
#include "tools/frontier.h"
#include "tools/levers.h"
#include "tools/micro_batches.h"
#include "tools/model_flags.h"
#include "tools/packer_flags.h"

namespace stowage::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  ModelFlags model;
  PackerFlags packer;
  std::string device;
  std::string graph;
  std::string output, svg;
  bool pareto = false;
  bool explain = false;
  bool json = false;
};

// What is planned: a model's training step, or a graph from a file as it is.
struct Subject {
  std::optional<StepSpec> spec;  // of a model
  std::unique_ptr<StepPlanner> planner;
};

Result<Subject> ReadSubject(const Flags& flags, const PlanOptions& options) {
  Subject subject;
  if (flags.graph.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(subject.spec, ReadModelFlags(flags.model));
    TrainingSpec training = subject.spec->training;
    training.planning = options;
    STOWAGE_ASSIGN_OR_RETURN(
        TrainingPlanner planner,
        TrainingPlanner::Make(std::move(training), options.device));
    subject.planner = std::move(planner).TakeStepPlanner();
    return subject;
  }
  StepQuestion question;
  question.fit.plan = options;
  STOWAGE_ASSIGN_OR_RETURN(question.fit.levers,
                           ReadLevers(flags.model, std::nullopt));
  STOWAGE_ASSIGN_OR_RETURN(question.budget,
                           ParseSizeOption("budget", flags.model.budget));
  STOWAGE_ASSIGN_OR_RETURN(question.op_times, ReadOpTimes(flags.model));
  STOWAGE_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.graph));
  STOWAGE_ASSIGN_OR_RETURN(const Graph graph, ParseGraph(text));
  question.build = OfGraph(graph);
  question.graphs = {graph};
  question.cache = ReadPlanCache(flags.model);
  subject.planner = std::make_unique<StepPlanner>(std::move(question));
  return subject;
}
int PrintFrontier(const Flags& flags, Levers& levers, bool by_time) {
  const Result<FrontierTexts> texts = DescribeFrontier(levers, by_time);
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

int Refuse(const Flags& flags, const std::optional<OpTimes>& times,
           Levers& levers, Bytes budget, const Error& error) {
  if (flags.json) {
    const Result<MicroBatchedPlan> given = levers.PlanAsGiven();
    if (!given.ok()) return Fail(given.error());
    const auto foretold = Foretell(times, levers, *given);
    if (!foretold.ok()) return Fail(foretold.error());
    Json json =
        Describe(flags, levers, *given, *foretold,
                 MakeReport(given->made.graph, given->made.plan), budget);
    const Result<Json> refusal = RefusalJson(levers, error);
    if (!refusal.ok()) return Fail(refusal.error());
    json.update(*refusal);
    PrintJson(json);
  }
  return Fail(error);
}

int Run(const Flags& flags) {
  if (flags.graph.empty() == flags.model.model.empty()) {
    return Fail({ErrorCode::kInvalidArgument,
                 flags.graph.empty()
                     ? "[plan] nothing to plan; give --model or --graph"
                     : "[plan] both --model and --graph are given; give one"});
  }
  const Result<NodeOrder> order = ParseOrder(flags.order);
  if (!order.ok()) return Fail(order.error());
  const Result<PackOptions> packer = ReadPackerFlags(flags.packer);
  if (!packer.ok()) return Fail(packer.error());
  const Result<std::optional<Bytes>> budget =
      ParseSizeOption("budget", flags.model.budget);
  if (!budget.ok()) return Fail(budget.error());

  PlanOptions options;
  options.packer = packer->packer;
  options.deadline = packer->deadline;
  const Result<DType> dtype = ParseDType(flags.model.dtype);
  if (!dtype.ok()) return Fail(dtype.error());
  const Status device =
      SetNeedsOfDevice(flags.device, *dtype, flags.model.threads, &options);
  if (!device.ok()) return Fail(device.error());
  const auto start = std::chrono::steady_clock::now();
  const Result<std::unique_ptr<Levers>> made =
      MakeLevers(flags, options, *order);
  if (!made.ok()) return Fail(made.error());
  Levers& levers = **made;
  const Result<std::optional<OpTimes>> times = ReadOpTimes(flags.model);
  if (!times.ok()) return Fail(times.error());
  if (flags.pareto) return PrintFrontier(flags, levers, times->has_value());

  const Result<MicroBatchedPlan> fitted = levers.PlanFor(*budget);
  if (!fitted.ok()) {
    const Error& error = fitted.error();
    if (error.code != ErrorCode::kBudgetTooSmall) return Fail(error);
    return Refuse(flags, *times, levers, **budget, error);
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  const Result<Bytes> smallest = levers.SmallestBudget();
  if (!smallest.ok()) return Fail(smallest.error());

  const auto& [graph, plan] = std::tie(fitted->made.graph, fitted->made.plan);
  if (!flags.output.empty()) {
    const Status written = WriteOutput(flags.output, PlanToJson(plan, graph));
    if (!written.ok()) return Fail(written.error());
  }
  const Report report = MakeReport(graph, plan);
  if (!flags.svg.empty()) {
    const Status written = WriteOutput(flags.svg, ToSvg(report));
    if (!written.ok()) return Fail(written.error());
  }
  const auto foretold = Foretell(*times, levers, *fitted);
  if (!foretold.ok()) return Fail(foretold.error());
  if (flags.json) {
    Json json = Describe(flags, levers, *fitted, *foretold, report, *budget);
    json["minimum_budget_bytes"] = *smallest;
    json["plan_seconds"] = seconds;
    json["valid"] = ValidatePlan(graph, plan).empty();
    PrintJson(json);
    return kExitDone;
  }
  std::cout << ToText(report);
  if (levers.order_bound()) {
    std::cout << "\nno order of the nodes needs less than "
              << FormatBytes(*levers.order_bound())
              << (*levers.order_bound() == report.arena
                      ? ", so this one is optimal\n"
                      : "\n");
  }
  const std::string fitting = FittedText(*fitted, *foretold);
  if (!fitting.empty()) std::cout << "\n" << fitting;
  if (*budget) {
    std::cout << "\nfits the budget of " << FormatBytes(**budget) << ", "
              << FormatBytes(**budget - report.arena) << " to spare\n";
  }
  std::cout << "\nplanned in " << Fixed(seconds, 3)
            << " s; smallest budget that works: " << FormatBytes(*smallest)
            << " (" << *smallest << " bytes)\n";
  return kExitDone;
}

}  // namespace

void AddPlan(CLI::App& app, int* exit_code) {
  CLI::App* command = AddSubcommand(
      app, "plan", "Plan the memory of a training step",
      "stowage plan --model gpt2-124m --batch 4 --seq 1024 --budget 8GiB");
  const auto flags = std::make_shared<Flags>();
  command->add_option("--model", flags->model.model,
                      "A name that `stowage models` lists");
  AddModelOptions(*command, &flags->model);
  command
      ->add_option("--order", flags->order,
                   "Order of the nodes: given, or memory, which looks for the "
                   "one that needs the least")
      ->capture_default_str();
  AddPackerOptions(*command, &flags->packer);
  command->add_option("--device", flags->device,
                      "Whose kernels' scratch to plan: cpu or cuda; default: "
                      "cuda for bf16 and f16, else cpu");
  command->add_option("--graph", flags->graph,
                      "Plan the graph in this file (its text form) as it is, "
                      "instead of a model's training step");
  command->add_flag("--pareto", flags->pareto,
                    "Print what every budget costs in recomputation, instead "
                    "of a plan");
  command->add_option("--svg", flags->svg,
                      "Write a picture to this file: of the plan, or of what "
                      "--pareto prints");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->add_option("-o,--output", flags->output,
                      "Write the plan and its graph to this file");
  command->callback([flags, exit_code] { *exit_code = Run(*flags); });
}

}  // namespace stowage::tools
