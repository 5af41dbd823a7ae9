// stowage plan: where every byte of a training step goes, before it runs.

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/strings.h"
#include "ir/text.h"
#include "planner/order.h"
#include "planner/plan_memory.h"
#include "planner/validate_plan.h"
#include "planner/weight_layout.h"
#include "report/report.h"
#include "tools/budget.h"
#include "tools/command.h"
#include "tools/device.h"
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
  bool json = false;
};

struct Planned {
  Graph graph;
  Plan plan;
  std::optional<Bytes> order_bound;  // when an order was looked for
  double seconds = 0;
};

Status CheckOrder(const std::string& order) {
  if (order == "given" || order == "memory") return {};
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[order] there is no order ", Quoted(order),
                      "; expected given or memory")};
}

// The plan without a budget, so that its figures can be told even when it does
// not fit.
Result<Planned> MakePlan(const Flags& flags, const PlanOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Planned planned;
  std::optional<WeightLayout> layout;
  if (flags.graph.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(const StepSpec spec, ReadModelFlags(flags.model));
    STOWAGE_ASSIGN_OR_RETURN(PlannedStep step, PlanStep(spec, options));
    planned.graph = std::move(step.step);
    planned.plan = std::move(step.plan);
    layout = std::move(step.layout);
  } else {
    STOWAGE_RETURN_IF_ERROR(CheckStepIsAsGiven(flags.model));
    STOWAGE_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.graph));
    STOWAGE_ASSIGN_OR_RETURN(planned.graph, ParseGraph(text));
    STOWAGE_ASSIGN_OR_RETURN(planned.plan, PlanMemory(planned.graph, options));
  }
  if (flags.order == "memory") {
    PlanOptions order_options = options;
    if (layout) order_options.weights = &*layout;
    STOWAGE_ASSIGN_OR_RETURN(OrderedPlan ordered,
                             PlanInMemoryOrder(planned.graph, order_options));
    planned.graph = std::move(ordered.graph);
    planned.plan = std::move(ordered.plan);
    planned.order_bound = ordered.bound;
  }
  planned.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return planned;
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
    json["model"] = planned.graph.name();
    json["params"] = report.params;
    json["batch"] = nullptr;
    json["seq"] = nullptr;
    json["dtype"] = nullptr;
    json["optimizer"] = nullptr;
  }
  json.update(FiguresJson(report, 20));
  json["order_bound_bytes"] =
      planned.order_bound ? Json(*planned.order_bound) : Json();
  json["recompute"] = "none";
  json["recomputed_nodes"] = 0;
  json["recompute_flops_percent"] = 0.0;
  json["micro_batches"] = 1;
  json["budget_bytes"] = budget ? Json(*budget) : Json();
  json["fits"] = !budget || report.arena <= *budget;
  json["minimum_budget_bytes"] = report.arena;
  json["plan_seconds"] = planned.seconds;
  json["valid"] = ValidatePlan(planned.graph, planned.plan).empty();
  return json;
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

  PlanOptions options;
  options.packer = packer->packer;
  options.deadline = packer->deadline;
  const Result<DType> dtype = ParseDType(flags.model.dtype);
  if (!dtype.ok()) return Fail(dtype.error());
  const Status device =
      SetNeedsOfDevice(flags.device, *dtype, flags.model.threads, &options);
  if (!device.ok()) return Fail(device.error());
  const Result<Planned> planned = MakePlan(flags, options);
  if (!planned.ok()) return Fail(planned.error());

  const Report report = MakeReport(planned->graph, planned->plan);
  Json json = Describe(flags, *planned, report, *budget);
  if (*budget && report.arena > **budget) {
    // The order for memory may have been packed by the best packer.
    if (planned->plan.packer.starts_with("best")) {
      options.packer = Packer::kBest;
    }
    const Error error =
        RefusalOf(planned->graph, planned->plan, options, **budget);
    json.update(RefusalJson(report, error));
    if (flags.json) PrintJson(json);
    return Fail(error);
  }

  if (!flags.output.empty()) {
    const Status written =
        WriteOutput(flags.output, PlanToJson(planned->plan, planned->graph));
    if (!written.ok()) return Fail(written.error());
  }
  if (flags.json) {
    PrintJson(json);
  } else {
    std::cout << ToText(report);
    if (planned->order_bound) {
      std::cout << "\nno order of the nodes needs less than "
                << FormatBytes(*planned->order_bound)
                << (*planned->order_bound == report.arena
                        ? ", so this one is optimal\n"
                        : "\n");
    }
    if (*budget) {
      std::cout << "\nfits the budget of " << FormatBytes(**budget) << ", "
                << FormatBytes(**budget - report.arena) << " to spare\n";
    }
    std::cout << "\nplanned in " << Fixed(planned->seconds, 3)
              << " s; smallest budget that works: " << FormatBytes(report.arena)
              << " (" << report.arena << " bytes)\n";
  }
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
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->add_option("-o,--output", flags->output,
                      "Write the plan and its graph to this file");
  command->callback([flags, exit_code] { *exit_code = Run(*flags); });
}

}  // namespace stowage::tools
