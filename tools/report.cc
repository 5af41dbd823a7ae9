// stowage report: a plan file in the form asked for.

#include "report/report.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "tools/command.h"

namespace stowage::tools {
namespace {

struct Flags {
  std::string plan;
  std::string format = "text";
  std::string output;
  bool at_peak = false;
};

Result<std::string> Print(const PlanFile& file, const Flags& flags) {
  const Report report = MakeReport(file.graph, file.plan);
  if (flags.at_peak) {
    const size_t all = report.peak_live.size();
    if (flags.format == "text") return PeakTable(report, all);
    if (flags.format == "json") {
      const nlohmann::ordered_json figures = FiguresJson(report, all);
      nlohmann::ordered_json json = nlohmann::ordered_json::object();
      for (const char* name : {"peak_time", "peak_node", "peak_live"}) {
        json[name] = figures[name];
      }
      return json.dump(1, ' ', false,
                       nlohmann::ordered_json::error_handler_t::replace) +
             '\n';
    }
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[report] --at-peak has no form ", flags.format,
                        "; expected text or json")};
  }
  if (flags.format == "text") return ToText(report);
  if (flags.format == "json") return ToJson(report);
  if (flags.format == "svg") return ToSvg(report);
  if (flags.format == "html") return ToHtml(report);
  if (flags.format == "trace") return ToChromeTrace(report);
  if (flags.format == "stream") return ToStreamText(file.graph, file.plan);
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[report] there is no format ", Quoted(flags.format),
                      "; expected text, json, svg, html, trace or stream")};
}

int Run(const Flags& flags) {
  const Result<std::string> text = ReadFile(flags.plan);
  if (!text.ok()) return Fail(text.error());
  const Result<PlanFile> file = PlanFromJson(*text);
  if (!file.ok()) return Fail(file.error());
  const Result<std::string> printed = Print(*file, flags);
  if (!printed.ok()) return Fail(printed.error());
  const Status written = WriteOutput(flags.output, *printed);
  return written.ok() ? kExitDone : Fail(written.error());
}

}  // namespace

void AddReport(CLI::App& app, int* exit_code) {
  CLI::App* command =
      AddSubcommand(app, "report",
                    "Print a plan file as text, JSON, picture, trace or stream",
                    "stowage report step.plan --format svg -o step.svg");
  const auto flags = std::make_shared<Flags>();
  command
      ->add_option("plan", flags->plan, "A file that `stowage plan -o` wrote")
      ->required();
  command
      ->add_option(
          "--format", flags->format,
          "text, json, svg, html, trace (for Perfetto), or stream (what a "
          "step allocates, launches and kills, in order)")
      ->capture_default_str();
  command->add_flag("--at-peak", flags->at_peak,
                    "Only what lives at the peak, all of it (text, json)");
  command->add_option("-o,--output", flags->output,
                      "Write to this file instead of stdout");
  command->callback([flags, exit_code] { *exit_code = Run(*flags); });
}

}  // namespace stowage::tools
