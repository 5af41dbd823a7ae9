// stowage plan: where every byte of a training step goes, before it runs.

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/strings.h"
#include "ir/layout.h"
#include "ir/text.h"
#include "planner/order.h"
#include "planner/plan_memory.h"
#include "planner/recompute.h"
#include "planner/validate_plan.h"
#include "planner/weight_layout.h"
#include "report/format.h"
#include "report/report.h"
#include "tools/budget.h"
#include "tools/command.h"
#include "tools/device.h"
#include "tools/micro_batches.h"
#include "tools/model_flags.h"
#include "tools/packer_flags.h"

namespace stowage::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  ModelFlags model;
  std::string order = "given";
  PackerFlags packer;
  std::string device;
  std::string graph;
  std::string output;
  bool pareto = false;
  bool json = false;
};

struct Planned {
  Graph graph;
  Plan plan;
  std::optional<WeightLayout> layout;  // that the plan takes as given
  std::optional<Bytes> order_bound;    // when an order was looked for
  int64_t pieces = 1;                  // of the batch
};

Status CheckOrder(const std::string& order) {
  if (order == "given" || order == "memory") return {};
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[order] there is no order ", Quoted(order),
                      "; expected given or memory")};
}

// The plan without a budget or recomputation, so that its figures can be told
// even when it does not fit.
Result<Planned> MakePlan(const Flags& flags, const PlanOptions& options) {
  Planned planned;
  if (flags.graph.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(const StepSpec spec, ReadModelFlags(flags.model));
    STOWAGE_ASSIGN_OR_RETURN(PlannedStep step, PlanStep(spec, options));
    planned.graph = std::move(step.step);
    planned.plan = std::move(step.plan);
    planned.layout = std::move(step.layout);
    planned.pieces = step.pieces;
  } else {
    STOWAGE_ASSIGN_OR_RETURN(const MicroBatches pieces,
                             ParseMicroBatches(flags.model.micro_batches));
    if (pieces != 1) {
      return Error{ErrorCode::kInvalidArgument,
                   "[micro-batches] a graph from a file is planned as it is; "
                   "only a --model can be taken in pieces"};
    }
    STOWAGE_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.graph));
    STOWAGE_ASSIGN_OR_RETURN(planned.graph, ParseGraph(text));
    STOWAGE_ASSIGN_OR_RETURN(planned.plan, PlanMemory(planned.graph, options));
  }
  if (flags.order == "memory") {
    PlanOptions order_options = options;
    if (planned.layout) order_options.weights = &*planned.layout;
    STOWAGE_ASSIGN_OR_RETURN(OrderedPlan ordered,
                             PlanInMemoryOrder(planned.graph, order_options));
    planned.graph = std::move(ordered.graph);
    planned.plan = std::move(ordered.plan);
    planned.order_bound = ordered.bound;
  }
  return planned;
}

// Absent for a graph from a file.
Result<std::optional<Bytes>> SmallestInPieces(const ModelFlags& flags,
                                              const PlanOptions& options) {
  if (flags.model.empty()) return std::optional<Bytes>();
  STOWAGE_ASSIGN_OR_RETURN(const StepSpec spec, ReadModelFlags(flags));
  STOWAGE_ASSIGN_OR_RETURN(const Bytes bytes,
                           tools::SmallestInPieces(spec, options));
  return std::optional<Bytes>(bytes);
}

Json Describe(const Flags& flags, const Planned& planned, const Report& report,
              std::optional<Bytes> budget) {
  Json json = Json::object();
  if (flags.graph.empty()) {
    const Result<StepSpec> spec = ReadModelFlags(flags.model);
    json["model"] = spec->info.name;
    json["params"] = report.params;
    json["batch"] = *spec->options.batch;
    json["seq"] = spec->options.seq ? Json(*spec->options.seq) : Json();
    json["dtype"] = DTypeName(spec->options.dtype);
    json["optimizer"] = OptimizerName(spec->optimizer);
  } else {
    json["model"] = report.graph_name;
    json["params"] = report.params;
    json["batch"] = nullptr;
    json["seq"] = nullptr;
    json["dtype"] = nullptr;
    json["optimizer"] = nullptr;
  }
  json.update(FiguresJson(report, 20));
  json["order_bound_bytes"] =
      planned.order_bound ? Json(*planned.order_bound) : Json();
  json["recompute"] = flags.model.recompute;
  json["recomputed_nodes"] = 0;
  json["recompute_flops_percent"] = 0.0;
  json["recompute_least_flops_percent"] = 0.0;
  json["remade"] = Json::array();
  json["micro_batches"] = planned.pieces;
  json["budget_bytes"] = budget ? Json(*budget) : Json();
  json["fits"] = !budget || report.arena <= *budget;
  return json;
}

void DescribeRecompute(const RecomputedPlan& made, double flops, Json* json) {
  const auto percent = [&](double part) {
    return flops > 0 ? 100 * part / flops : 0.0;
  };
  (*json)["recomputed_nodes"] = made.recomputed_nodes;
  (*json)["recompute_flops_percent"] = made.extra_percent;
  (*json)["recompute_least_flops_percent"] = percent(made.least_extra_cost);
  for (const Remade& remade : made.remade) {
    (*json)["remade"].push_back({{"name", remade.name},
                                 {"bytes_freed", remade.freed},
                                 {"flops_percent", percent(remade.flops)},
                                 {"times", remade.times}});
  }
}

// What every budget costs, from the step as it is to the smallest.
int PrintFrontier(RecomputePlanner& planner, double flops, bool as_json) {
  const Result<std::vector<FrontierPoint>> frontier = planner.Frontier();
  if (!frontier.ok()) return Fail(frontier.error());
  Json points = Json::array();
  std::string table =
      "        budget    more operations    at least    nodes\n";
  for (const FrontierPoint& point : *frontier) {
    const double least = 100 * point.least_extra_cost / std::max(flops, 1.0);
    points.push_back({{"budget_bytes", point.arena},
                      {"recompute_flops_percent", point.extra_percent},
                      {"recompute_least_flops_percent", least},
                      {"recomputed_nodes", point.recomputed_nodes}});
    table += StrCat(PadLeft(StrCat(point.arena), 14),
                    PadLeft(Fixed(point.extra_percent, 3), 17), " %",
                    PadLeft(Fixed(least, 3), 10), " %",
                    PadLeft(StrCat(point.recomputed_nodes), 9), "\n");
  }
  if (as_json) {
    PrintJson({{"frontier", points}});
  } else {
    std::cout << table;
  }
  return kExitDone;
}

int Run(const Flags& flags) {
  if (flags.graph.empty() == flags.model.model.empty()) {
    return Fail({ErrorCode::kInvalidArgument,
                 flags.graph.empty()
                     ? "[plan] nothing to plan; give --model or --graph"
                     : "[plan] both --model and --graph are given; give one"});
  }
  if (const Status status = CheckOrder(flags.order); !status.ok()) {
    return Fail(status.error());
  }
  const Result<PackOptions> packer = ReadPackerFlags(flags.packer);
  if (!packer.ok()) return Fail(packer.error());
  const Result<std::optional<Bytes>> budget =
      ParseSizeOption("budget", flags.model.budget);
  if (!budget.ok()) return Fail(budget.error());
  const Result<Recompute> recompute = ParseRecompute(flags.model.recompute);
  if (!recompute.ok()) return Fail(recompute.error());

  PlanOptions options;
  options.packer = packer->packer;
  options.deadline = packer->deadline;
  const Result<DType> dtype = ParseDType(flags.model.dtype);
  if (!dtype.ok()) return Fail(dtype.error());
  const Status device =
      SetNeedsOfDevice(flags.device, *dtype, flags.model.threads, &options);
  if (!device.ok()) return Fail(device.error());
  const auto start = std::chrono::steady_clock::now();
  const PlanOptions given = options;
  const Result<Planned> planned = MakePlan(flags, given);
  if (!planned.ok()) return Fail(planned.error());
  if (planned->layout) options.weights = &*planned->layout;
  // The order for memory may have been packed by the best packer.
  if (planned->plan.packer.starts_with("best")) options.packer = Packer::kBest;
  RecomputePlanner planner(planned->graph, options, {.recompute = *recompute});
  const double flops = GraphFlops(planned->graph);
  if (flags.pareto) return PrintFrontier(planner, flops, flags.json);

  Result<RecomputedPlan> made = planner.PlanFor(*budget);
  if (!made.ok()) {
    if (made.error().code != ErrorCode::kBudgetTooSmall) {
      return Fail(made.error());
    }
    Json json = Describe(flags, *planned,
                         MakeReport(planned->graph, planned->plan), *budget);
    const Result<std::optional<Bytes>> in_pieces =
        SmallestInPieces(flags.model, given);
    if (!in_pieces.ok()) return Fail(in_pieces.error());
    const auto refusal =
        RefusalJson(planner, *recompute, *in_pieces, made.error());
    if (!refusal.ok()) return Fail(refusal.error());
    json.update(*refusal);
    if (flags.json) PrintJson(json);
    return Fail(made.error());
  }
  made->plan.order = planned->plan.order;
  const Result<Bytes> smallest = planner.SmallestBudget(*recompute);
  if (!smallest.ok()) return Fail(smallest.error());
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();

  if (!flags.output.empty()) {
    const Status written =
        WriteOutput(flags.output, PlanToJson(made->plan, made->graph));
    if (!written.ok()) return Fail(written.error());
  }
  const Report report = MakeReport(made->graph, made->plan);
  if (flags.json) {
    Json json = Describe(flags, *planned, report, *budget);
    DescribeRecompute(*made, flops, &json);
    json["minimum_budget_bytes"] = *smallest;
    json["plan_seconds"] = seconds;
    json["valid"] = ValidatePlan(made->graph, made->plan).empty();
    PrintJson(json);
    return kExitDone;
  }
  std::cout << ToText(report);
  if (planned->order_bound) {
    std::cout << "\nno order of the nodes needs less than "
              << FormatBytes(*planned->order_bound)
              << (*planned->order_bound == report.arena
                      ? ", so this one is optimal\n"
                      : "\n");
  }
  if (made->recomputed_nodes > 0) {
    std::cout << "\n" << RecomputeText(*made, flops);
  }
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
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->add_option("-o,--output", flags->output,
                      "Write the plan and its graph to this file");
  command->callback([flags, exit_code] { *exit_code = Run(*flags); });
}

}  // namespace stowage::tools
