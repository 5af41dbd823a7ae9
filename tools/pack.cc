// stowage pack packs buffers of a CSV file.

#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/result.h"
#include "base/strings.h"
#include "planner/packing/packer.h"
#include "planner/packing/problem.h"
#include "planner/packing/validate.h"
#include "report/svg.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/options.h"

namespace stowage::tools {
namespace {

using Json = nlohmann::ordered_json;

struct PackFlags {
  std::string file;
  std::string capacity;  // "" for none
  PackerFlags packer;
  std::string output;
  std::string svg;
  bool json = false;
};

// The figures of a packing, which are printed even if it exceeds the capacity.
struct Figures {
  Bytes total = 0;
  bool fits = true;
  bool valid = false;
  double seconds = 0;
};

Json FiguresJson(const packing::Problem& problem, std::optional<Bytes> capacity,
                 const packing::Packing& packing, const Figures& figures) {
  Json json = Json::object();
  json["buffers"] = problem.buffers.size();
  json["total_bytes"] = figures.total;
  json["lower_bound"] = packing.lower_bound;
  json["height"] = packing.solution.height;
  json["capacity"] = capacity ? Json(*capacity) : Json();
  json["fits"] = figures.fits;
  json["optimal"] = packing.optimal;
  json["packer"] = packing.packer;
  json["seconds"] = figures.seconds;
  json["valid"] = figures.valid;
  return json;
}

void PrintText(const packing::Problem& problem, std::optional<Bytes> capacity,
               const packing::Packing& packing, const Figures& figures) {
  const Bytes height = packing.solution.height;
  const double above =
      packing.lower_bound == 0
          ? 0.0
          : 100.0 * static_cast<double>(height - packing.lower_bound) /
                static_cast<double>(packing.lower_bound);
  std::cout << "buffers      " << problem.buffers.size() << ", "
            << figures.total << " bytes in all\n"
            << "lower bound  " << packing.lower_bound << " bytes\n"
            << "height       " << height << " bytes, " << Fixed(above, 3)
            << " % above the bound" << (packing.optimal ? ": optimal\n" : "\n");
  if (capacity) {
    std::cout << "capacity     " << *capacity << " bytes, "
              << *capacity - height << " to spare\n";
  }
  std::cout << "packer       " << packing.packer << ", "
            << Fixed(figures.seconds, 3) << " s, "
            << (figures.valid ? "valid" : "NOT VALID") << "\n";
}

int RunPack(const PackFlags& flags) {
  const Result<packing::PackOptions> options = ReadPackerFlags(flags.packer);
  if (!options.ok()) return Fail(options.error());
  const Result<std::optional<Bytes>> capacity =
      ParseSizeOption("capacity", flags.capacity);
  if (!capacity.ok()) return Fail(capacity.error());
  const Status tried =
      TryOutputs({{"output", flags.output}, {"svg", flags.svg}},
                 {{"the file", flags.file}});
  if (!tried.ok()) return Fail(tried.error());
  const Result<std::string> text = ReadTextFile(flags.file);
  if (!text.ok()) return Fail(text.error());
  Result<packing::Problem> problem = packing::ParseProblemCsv(*text);
  if (!problem.ok()) return Fail(problem.error());

  const auto start = std::chrono::steady_clock::now();
  problem->capacity = *capacity;
  Result<packing::PackAttempt> attempt = TryPack(*problem, *options);
  if (!attempt.ok()) return Fail(attempt.error());
  packing::Packing& packing = attempt->packing;
  if (attempt->refusal) {
    // Report the packing without the capacity, and search for it unless a deadline has
    // passed.
    problem->capacity.reset();
    if (!options->deadline) packing = *Pack(*problem, *options);
  }
  Figures figures;
  figures.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  for (const packing::Buffer& buffer : problem->buffers)
    figures.total += buffer.size;
  figures.valid = packing::Validate(*problem, packing.solution).empty();
  figures.fits = !attempt->refusal;

  Json json = FiguresJson(*problem, *capacity, packing, figures);
  if (attempt->refusal) {
    json["error"] = attempt->refusal->message;
    if (flags.json) PrintJson(json);
    return Fail(*attempt->refusal);
  }
  if (!flags.output.empty()) {
    const Status written = WriteOutput(
        flags.output, packing::FormatPackingCsv(*problem, packing.solution));
    if (!written.ok()) return Fail(written.error());
  }
  if (!flags.svg.empty()) {
    problem->capacity = *capacity;
    const Status written = WriteOutput(flags.svg, ToSvg(*problem, packing));
    if (!written.ok()) return Fail(written.error());
  }
  if (flags.json) {
    PrintJson(json);
  } else {
    PrintText(*problem, *capacity, packing, figures);
  }
  return kExitDone;
}

}  // namespace

void AddPack(Program& program) {
  Options options = program.AddSubcommand(
      "pack", "Pack the buffers of a CSV file",
      "stowage pack buffers.csv --capacity 1MiB -o packed.csv");
  const auto flags = std::make_shared<PackFlags>();
  options.Group("data");
  options.Add("file", &flags->file,
              "CSV with the header id,lower,upper,size[,alignment][,offset]; "
              "lifetimes are half-open, and given offsets are fixed");
  options.Require("file");
  options.Group("memory");
  options.Add("--capacity", &flags->capacity,
              "Stop at a packing of this height");
  AddPackerOptions(options, &flags->packer);
  options.Group("output");
  options.AddFlag("--json", &flags->json, "Print one JSON object");
  options.AddOutput("-o,--output", &flags->output,
                    "Write the CSV with all offsets to this file");
  options.AddOutput("--svg", &flags->svg,
                    "Draw the packing into this SVG file");
  options.OnRun([flags] { return RunPack(*flags); });
}

}  // namespace stowage::tools
