// stowage compile: a planned training step as one C file.

#include "compile/compile.h"

#include <cstddef>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "formats/array.h"
#include "ir/graph.h"
#include "runtime/weights.h"
#include "tools/budget.h"
#include "tools/command.h"
#include "tools/init_flags.h"
#include "tools/model_flags.h"
#include "tools/onnx_flags.h"
#include "tools/options.h"
#include "tools/plan_subject.h"
#include "tools/progress.h"
#include "tools/train_files.h"
#include "train/training.h"

namespace stowage::tools {
namespace {

struct CompileFlags {
  PlanFlags plan;
  InitFlags init;
  std::string prefix;
  std::string arena = "static";
  int simd = 0;
};

// "out/step.h" for "out/step.c".
std::string HeaderPath(const std::string& source) {
  return std::filesystem::path(source).replace_extension(".h").string();
}

Result<CompileOptions> ReadCompileOptions(const CompileFlags& flags) {
  const std::filesystem::path source(flags.plan.output);
  if (source.extension() != ".c") {
    return InvalidArgumentError(
        "[compile] the output is ", Quoted(flags.plan.output),
        "; expected a name that ends in .c, beside which "
        "the header is written");
  }
  if (flags.arena != "static" && flags.arena != "caller") {
    return InvalidArgumentError("[compile] --arena is ", Quoted(flags.arena),
                                "; expected static or caller");
  }
  if (flags.simd != 0 && flags.simd != 16 && flags.simd != 32 &&
      flags.simd != 64) {
    return InvalidArgumentError("[compile] --simd is ", flags.simd,
                                "; expected 16, 32 or 64");
  }
  CompileOptions options;
  options.simd = flags.simd;
  options.prefix = flags.prefix.empty() ? source.stem().string() : flags.prefix;
  options.header = HeaderPath(source.filename().string());
  options.caller_arena = flags.arena == "caller";
  return options;
}

// Reads the weights of an ONNX file and of --init for params of the step, and plans frozen ones
// as constants. An unmodified graph keeps its params in the arena, where an application can
// write trained weights.
Status ReadContents(const InitFlags& init, int simd, Subject* subject,
                    std::map<std::string, std::string>* contents) {
  STOWAGE_ASSIGN_OR_RETURN(const WeightRules rules,
                           ReadInitRules("compile", init));
  if (!subject->onnx && init.file.empty()) return {};
  STOWAGE_ASSIGN_OR_RETURN(const SampledStep whole,
                           subject->planner().question().build(
                               /*micro_batches=*/1, Sampling::kAll));
  const auto take = [&](const std::string& name,
                        std::span<const std::byte> bytes) -> Status {
    contents->insert_or_assign(
        name,
        std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    return {};
  };
  if (subject->onnx) {
    STOWAGE_RETURN_IF_ERROR(subject->onnx->model.ForEachWeight(
        whole.graph, [&](const NamedArray& weight) {
          return take(weight.name, weight.array.data());
        }));
  }
  if (!init.file.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(const LoadedWeights loaded,
                             ReadWeights(whole.graph, init.file, rules,
                                         [&](const ValueInfo& param,
                                             std::span<const std::byte> bytes) {
                                           return take(param.name, bytes);
                                         }));
    std::cerr << WeightsText(init.file, loaded) << std::flush;
  }
  if (!subject->training) return {};
  std::set<std::string> names;
  for (const auto& [name, bytes] : *contents) names.insert(name);
  TrainingSpec training = subject->training->spec();
  training.planning.outside = FrozenParams(whole.graph, names);
  if (training.planning.outside.empty()) return {};
  STOWAGE_ASSIGN_OR_RETURN(
      subject->training,
      TrainingPlanner::Make(std::move(training), NeedsOfC(simd)));
  return {};
}

struct Planned {
  FittedStep step;
  std::vector<PlannedProgram> programs;  // beside it
};

Result<Planned> PlanPrograms(Subject& subject) {
  if (!subject.training) {
    STOWAGE_ASSIGN_OR_RETURN(PlannedStep step, subject.planner().Plan());
    return Planned{std::move(step.step), {}};
  }
  STOWAGE_ASSIGN_OR_RETURN(TrainingPlan plan, subject.training->Plan());
  return Planned{std::move(plan.step), std::move(plan.programs)};
}

void PrintCompiled(const CompileFlags& flags, const CompiledStep& step,
                   const Plan& plan, std::optional<Bytes> budget) {
  if (flags.plan.json) {
    PrintJson({{"source", flags.plan.output},
               {"header", HeaderPath(flags.plan.output)},
               {"arena_bytes", step.arena},
               {"budget_bytes", budget ? nlohmann::ordered_json(*budget)
                                       : nlohmann::ordered_json()},
               {"packer", plan.packer},
               {"slow_bytes", step.slow},
               {"flash_bytes", step.flash},
               {"stack_bytes", step.stack},
               {"saved_bytes", plan.regions.weights + plan.regions.state},
               {"kernels", step.kernels},
               {"launches", step.launches},
               {"source_bytes", step.source.size()}});
    return;
  }
  std::cout << WithoutControls(flags.plan.output) << ": " << step.launches
            << " launches of " << step.kernels << " kernels\narena "
            << FormatBytes(step.arena) << " (" << step.arena << " bytes)";
  if (step.slow > 0) {
    std::cout << ", slow memory " << FormatBytes(step.slow) << " (" << step.slow
              << " bytes)";
  }
  if (step.flash > 0) {
    std::cout << ", weights in the file " << FormatBytes(step.flash) << " ("
              << step.flash << " bytes)";
  }
  std::cout << ", stack at most " << step.stack << " bytes\n";
}

int RunCompile(const CompileFlags& flags) {
  const PlanFlags& subject_flags = flags.plan;
  const int given = !subject_flags.graph.empty() +
                    !subject_flags.model.model.empty() +
                    !subject_flags.onnx.file.empty();
  if (given != 1) {
    return Fail(InvalidArgumentError(
        given == 0
            ? "[compile] nothing to compile; give --model, --onnx or "
              "--graph"
            : "[compile] --model, --onnx and --graph exclude each other; "
              "give one"));
  }
  if (subject_flags.model.threads != 0) {
    return Fail(InvalidArgumentError(
        "[compile] --threads does not apply: a step in C computes in the "
        "thread that calls it; leave it away"));
  }
  Result<CompileOptions> options = ReadCompileOptions(flags);
  if (!options.ok()) return Fail(options.error());
  const Result<packing::PackOptions> packer =
      ReadPackerFlags(subject_flags.packer);
  if (!packer.ok()) return Fail(packer.error());
  const Status tried =
      TryOutputs({{"output", subject_flags.output},
                  {"the header", HeaderPath(subject_flags.output)}},
                 {{"graph", subject_flags.graph},
                  {"onnx", subject_flags.onnx.file},
                  {"init", flags.init.file},
                  {"init", ShardFolderOf(flags.init.file)},
                  {"op-times", subject_flags.model.op_times}});
  if (!tried.ok()) return Fail(tried.error());
  std::function<void()> on_choice;
  const std::shared_ptr<WorkProgress> progress =
      WorkProgress::OfPlanning(&on_choice);
  Result<Subject> subject = ReadSubject(subject_flags,
                                        {.alignment = AlignmentInC(flags.simd),
                                         .packer = packer->packer,
                                         .deadline = packer->deadline,
                                         .device = NeedsOfC(flags.simd)},
                                        on_choice);
  if (!subject.ok()) return Fail(subject.error());
  const Status read =
      ReadContents(flags.init, flags.simd, &*subject, &options->contents);
  if (!read.ok()) return Fail(read.error());
  const Result<Planned> planned = PlanPrograms(*subject);
  progress->Clear();
  if (!planned.ok()) {
    if (planned.error().code != ErrorCode::kBudgetTooSmall) {
      return Fail(planned.error());
    }
    const Error all = WithSmallestBudgets(subject->planner().fitter(),
                                          subject->batch(), planned.error());
    progress->Clear();
    return Fail(all);
  }
  const FittedStep& step = planned->step;
  std::vector<CProgram> programs = {{"step", step.graph, step.plan}};
  for (const PlannedProgram& program : planned->programs) {
    programs.push_back({program.name, program.graph, program.plan});
  }
  const Result<CompiledStep> compiled = CompileToC(programs, *options);
  if (!compiled.ok()) return Fail(compiled.error());
  Status written =
      WriteOutput(HeaderPath(subject_flags.output), compiled->header);
  if (written.ok()) {
    written = WriteOutput(subject_flags.output, compiled->source);
  }
  if (!written.ok()) return Fail(written.error());
  PrintCompiled(flags, *compiled, step.plan,
                subject->planner().question().budget);
  return kExitDone;
}

}  // namespace

void AddCompile(Program& program) {
  Options options = program.AddSubcommand(
      "compile", "Write a planned training step as one C file and its header",
      "stowage compile --model mlp --batch 8 --budget 2MiB -o step.c");
  const auto flags = std::make_shared<CompileFlags>();
  PlanFlags& plan = flags->plan;
  options.Group("model");
  options.Add("--model", &plan.model.model,
              "A name that `stowage models` lists");
  AddModelOptions(options, &plan.model);
  AddLoraOptions(options, &plan.model);
  AddOnnxOptions(options, &plan.onnx);
  AddPackerOptions(options, &plan.packer);
  options.Group("model");
  options.Add("--graph", &plan.graph,
              "Compile the graph in this file (text form) instead of a model's "
              "training step");
  AddInitOptions(options, &flags->init);
  options.AddFlag(
      "--evaluate", &plan.evaluate,
      "Also write a function that evaluates the model with the step's params");
  options.Group("output");
  options.AddOutput("-o,--output", &plan.output,
                    "Write the C source to this file, whose name ends in .c, "
                    "and the header next to it");
  options.Require("--output");
  options.Add("--prefix", &flags->prefix,
              "Prefix of all names; default: the output's name");
  options.Add("--arena", &flags->arena,
              "static: the C file has the arena; caller: every function takes "
              "a pointer to it");
  options.Add("--simd", &flags->simd,
              "Compute in vectors of 16, 32 or 64 bytes, by the extensions of "
              "gcc and clang; default: scalar C11");
  options.AddFlag("--json", &plan.json, "Print one JSON object");
  options.ApplyTo({"--model"}, {"--dtype", "--seq"});
  options.ApplyTo({"--onnx"}, {"--dim", "--shape", "--loss", "--trainable"});
  options.ApplyTo({"--loss"}, {"--freeze"});
  options.ApplyTo({"--model", "--loss"}, {"--evaluate"});
  options.ApplyTo({"--model", "--onnx"}, {"--batch"});
  options.ApplyTo({"--model", "--loss"}, OptionsOfTraining());
  options.OnRun([flags] { return RunCompile(*flags); });
}

}  // namespace stowage::tools
