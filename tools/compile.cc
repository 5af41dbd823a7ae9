// stowage compile: a planned training step as one C file.

#include "compile/compile.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
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
  std::vector<std::string> regions;  // NAME=BYTES
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

Result<std::vector<MemoryRegion>> ReadRegions(const CompileFlags& flags) {
  std::vector<MemoryRegion> regions;
  for (const std::string& text : flags.regions) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos ||
        equals + 1 == text.size()) {
      return InvalidArgumentError("[region] --region is ", Quoted(text),
                                  "; expected NAME=BYTES, such as sram=256KB");
    }
    STOWAGE_ASSIGN_OR_RETURN(
        const std::optional<Bytes> bytes,
        ParseSizeOption("region", text.substr(equals + 1)));
    regions.push_back({.name = text.substr(0, equals), .bytes = *bytes});
  }
  return regions;
}

// Without a budget, the step is fitted into the sum of the regions. Only an option that asks for
// offload adds another memory to them.
Status FitIntoRegions(const std::vector<MemoryRegion>& regions,
                      ModelFlags* flags) {
  if (regions.empty()) return {};
  Bytes sum = 0;
  for (const MemoryRegion& region : regions) {
    const std::optional<Bytes> next = CheckedAdd(sum, region.bytes);
    if (!next) {
      return InvalidArgumentError(
          "[region] the sum of the regions does not fit 64 bits at ",
          Quoted(region.name), " of ", region.bytes, " bytes");
    }
    sum = *next;
  }
  if (flags->budget.empty()) flags->budget = StrCat(sum);
  const bool chooses =
      !flags->fit.empty() || !flags->micro_batches.empty() ||
      std::ranges::any_of(flags->optimizations, [](const auto& optimization) {
        return !optimization.second.empty();
      });
  if (chooses) return {};
  flags->fit = "auto";
  flags->optimizations["offload"] = "none";
  return {};
}

// Reads the weights of an ONNX file and of --init for params of the step, and plans frozen ones
// as constants. An unmodified graph keeps its params in the arena, where an application can
// write trained weights. Returns what was read of --init, in words.
Result<std::string> ReadContents(const InitFlags& init, int simd,
                                 Subject* subject,
                                 std::map<std::string, std::string>* contents) {
  STOWAGE_ASSIGN_OR_RETURN(const WeightRules rules,
                           ReadInitRules("compile", init));
  std::string note;
  if (!subject->onnx && init.file.empty()) return note;
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
    note = WeightsText(init.file, loaded);
  }
  if (!subject->training) return note;
  std::set<std::string> names;
  for (const auto& [name, bytes] : *contents) names.insert(name);
  TrainingSpec training = subject->training->spec();
  training.planning.outside = FrozenParams(whole.graph, names);
  if (training.planning.outside.empty()) return note;
  STOWAGE_ASSIGN_OR_RETURN(
      subject->training,
      TrainingPlanner::Make(std::move(training), NeedsOfC(simd)));
  return note;
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

// All that a file is written from.
struct PlannedFile {
  Subject subject;
  Planned planned;
  std::map<std::string, std::string> contents;
  std::optional<Placement> placement;
  std::string note;  // of weights read

  std::vector<CProgram> programs() const {
    const FittedStep& step = planned.step;
    std::vector<CProgram> all = {{"step", step.graph, step.plan}};
    for (const PlannedProgram& program : planned.programs) {
      all.push_back({program.name, program.graph, program.plan});
    }
    return all;
  }
};

// Error kBudgetTooSmall: with the smallest budgets.
Result<PlannedFile> PlanAll(const CompileFlags& flags,
                            const PlanOptions& options,
                            const std::function<void()>& on_choice) {
  PlannedFile file;
  STOWAGE_ASSIGN_OR_RETURN(file.subject,
                           ReadSubject(flags.plan, options, on_choice));
  STOWAGE_ASSIGN_OR_RETURN(
      file.note,
      ReadContents(flags.init, flags.simd, &file.subject, &file.contents));
  Result<Planned> planned = PlanPrograms(file.subject);
  if (!planned.ok()) {
    if (planned.error().code != ErrorCode::kBudgetTooSmall) {
      return planned.error();
    }
    return WithSmallestBudgets(file.subject.planner().fitter(),
                               file.subject.batch(), planned.error());
  }
  file.planned = *std::move(planned);
  return file;
}

// A refusal of a budget, with the regions.
Error WithRegions(Error error, const std::vector<MemoryRegion>& regions) {
  if (error.code != ErrorCode::kBudgetTooSmall) return error;
  for (const MemoryRegion& region : regions) {
    error.message +=
        StrCat(&region == regions.data() ? "; the regions: " : ", ",
               region.name, " ", region.bytes, " bytes");
  }
  return error;
}

// Plans a step and places it in the regions.
Result<PlannedFile> PlanInRegions(const CompileFlags& flags,
                                  const PlanOptions& options,
                                  const std::function<void()>& on_choice,
                                  const std::vector<MemoryRegion>& regions) {
  Result<PlannedFile> file = PlanAll(flags, options, on_choice);
  if (!file.ok()) return WithRegions(file.error(), regions);
  std::vector<ProgramPlan> programs;
  for (const CProgram& program : file->programs()) {
    programs.push_back({program.graph, program.plan});
  }
  STOWAGE_ASSIGN_OR_RETURN(file->placement,
                           PlaceInRegions(programs, regions, TrafficOfC));
  return file;
}

// Writes the source and its header. If the source cannot be written, the header stays as it was.
Status WriteBoth(const std::string& source, const CompiledStep& compiled) {
  const std::string header = HeaderPath(source);
  std::optional<std::string> former;
  if (std::filesystem::is_regular_file(header)) {
    std::ifstream file(header, std::ios::binary);
    former.emplace(std::istreambuf_iterator<char>(file),
                   std::istreambuf_iterator<char>());
  }
  STOWAGE_RETURN_IF_ERROR(WriteOutput(header, compiled.header));
  Status written = WriteOutput(source, compiled.source);
  if (written.ok()) return written;
  if (former) {
    STOWAGE_RETURN_IF_ERROR(WriteOutput(header, *former));
  } else if (std::filesystem::is_regular_file(header)) {
    std::filesystem::remove(header);
  }
  return written;
}

double ShareOf(double traffic, const Placement& placement) {
  return placement.traffic > 0 ? traffic / placement.traffic : 0;
}

// A line for each region; the fastest one's has the bound of its traffic.
std::string RegionsText(const std::optional<Placement>& placement) {
  std::string text;
  if (!placement) return text;
  const auto percent = [&](double traffic) {
    return StrCat(Fixed(100 * ShareOf(traffic, *placement), 1), " %");
  };
  for (size_t r = 0; r < placement->regions.size(); ++r) {
    const MemoryRegion& region = placement->regions[r];
    const RegionUse& use = placement->use[r];
    text += StrCat("region ", region.name, ": ", FormatBytes(use.bytes), " (",
                   use.bytes, " bytes) of ", FormatBytes(region.bytes), ", ",
                   percent(use.traffic), " of the traffic");
    if (r == 0) {
      text +=
          StrCat(", at most ", percent(placement->fastest_bound), " possible");
    }
    text += "\n";
  }
  return text;
}

// [{"name", "bytes", "given_bytes", "traffic_share"}]; null without regions.
nlohmann::ordered_json RegionsJson(const std::optional<Placement>& placement) {
  if (!placement) return {};
  nlohmann::ordered_json regions = nlohmann::ordered_json::array();
  for (size_t r = 0; r < placement->regions.size(); ++r) {
    const RegionUse& use = placement->use[r];
    regions.push_back({{"name", placement->regions[r].name},
                       {"bytes", use.bytes},
                       {"given_bytes", placement->regions[r].bytes},
                       {"traffic_share", ShareOf(use.traffic, *placement)}});
  }
  regions[0]["traffic_share_bound"] =
      ShareOf(placement->fastest_bound, *placement);
  return regions;
}

void PrintCompiled(const CompileFlags& flags, const CompiledStep& step,
                   const Plan& plan, std::optional<Bytes> budget,
                   const std::optional<Placement>& placement) {
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
               {"saved_bytes", step.saved},
               {"kernels", step.kernels},
               {"launches", step.launches},
               {"source_bytes", step.source.size()},
               {"regions", RegionsJson(placement)}});
    return;
  }
  std::cout << WithoutControls(flags.plan.output) << ": " << step.launches
            << " launches of " << step.kernels << " kernels\n"
            << RegionsText(placement) << (placement ? "all regions " : "arena ")
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

int RunCompile(CompileFlags flags) {
  PlanFlags& subject_flags = flags.plan;
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
  const Result<std::vector<MemoryRegion>> regions = ReadRegions(flags);
  if (!regions.ok()) return Fail(regions.error());
  const Status summed = FitIntoRegions(*regions, &subject_flags.model);
  if (!summed.ok()) return Fail(summed.error());
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
  const PlanOptions planning{.alignment = AlignmentInC(flags.simd),
                             .packer = packer->packer,
                             .deadline = packer->deadline,
                             .device = NeedsOfC(flags.simd)};
  Result<PlannedFile> file =
      regions->empty() ? PlanAll(flags, planning, on_choice)
                       : PlanInRegions(flags, planning, on_choice, *regions);
  progress->Clear();
  if (!file.ok()) return Fail(file.error());
  std::cerr << file->note << std::flush;
  options->contents = std::move(file->contents);
  options->placement = std::move(file->placement);
  const Result<CompiledStep> compiled = CompileToC(file->programs(), *options);
  if (!compiled.ok()) return Fail(compiled.error());
  const Status written = WriteBoth(subject_flags.output, *compiled);
  if (!written.ok()) return Fail(written.error());
  PrintCompiled(flags, *compiled, file->planned.step.plan,
                file->subject.planner().question().budget, options->placement);
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
  options.AddEach("--region", &flags->regions,
                  "NAME=BYTES: a memory of the board, such as sram=256KB, the "
                  "fastest first; each has an array instead of the arena, and "
                  "their sum is the default of --budget; may be repeated");
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
