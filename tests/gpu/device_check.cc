// Checks the GPU of this machine, and measures it. tools/gpu_check.sh builds and
// carries this program, and runs it.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "gpu/cuda_device.h"
#include "gpu/gpu_backend.h"
#include "tests/gpu/apart.h"
#include "tests/gpu/check_rows.h"
#include "tests/gpu/cudnn_property.h"
#include "tests/gpu/device_suite.h"

namespace stowage::testing {
namespace {

constexpr int kExitOk = 0, kExitFailed = 1, kExitUsage = 2, kExitNoDevice = 3;
constexpr int kExitBug = 70;
// As many as a death may cost: a row takes seconds to start.
constexpr size_t kOpCasesApart = 100;

struct Flags {
  std::string size = "full";
  std::vector<std::string> only;
  std::string output;
  bool resume = false, apart = false;
  std::vector<std::string> skip;
  double timeout = 60, seconds = 0;
  gpu::CudaOptions cuda;
  int64_t growth_steps = 0;
};

Result<OpenedDevice> Open(const gpu::CudaOptions& cuda,
                          const gpu::BackendOptions& options) {
  STOWAGE_ASSIGN_OR_RETURN(std::unique_ptr<gpu::Device> device,
                           gpu::OpenCudaDevice(cuda));
  gpu::Device* const raw = device.get();
  STOWAGE_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend,
                           gpu::MakeGpuBackend(std::move(device), options));
  return OpenedDevice{std::move(backend), raw};
}

// What a build without the device needs to choose its convolutions.
void DescribeForCudnn(int device, CheckRow* row) {
  const auto property = ReadCudnnProperty(device, "");
  if (!property.ok()) {
    row->data["no_cudnn"] = property.error().message;
    return;
  }
  row->data["cudnn"] = {{"library", property->library},
                        {"version", property->version},
                        {"device_property", property->json}};
}

// False when the file cannot be written.
bool WriteJson(const std::string& path, const nlohmann::ordered_json& json) {
  if (path.empty()) return true;
  std::ofstream out(path);
  out << json.dump(1) << std::endl;
  if (out) return true;
  std::cerr << "device_check: " << Quoted(path) << " cannot be written\n";
  return false;
}

// The rows that are ok in a file of an earlier run; none where there is no such file.
std::vector<CheckRow> KnownRows(const std::string& path) {
  std::ifstream in(path);
  const auto json = nlohmann::ordered_json::parse(in, nullptr,
                                                  /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("rows")) return {};
  return OkRowsOf(json["rows"]);
}

// Where rows go as they are known; nowhere without an output.
std::string LinesOf(const Flags& flags) {
  return flags.output.empty() ? "" : flags.output + "l";
}

// One row, in the process made for it.
void RunRow(const OpenDevice& open, const SuiteOptions& options,
            const std::string& name, const CheckReport& report) {
  SuiteOptions alone = options;
  alone.row = name;
  alone.ops.at = [&](const std::string& name) { report.At(name); };
  const auto rows = RunDeviceSuite(
      open, alone, [&](const CheckRow& row) { report.Row(row); });
  if (rows.ok()) return;
  CheckRow row{.name = name};
  row.Fail(rows.error().message);
  row.data["no_device"] = rows.error().message;
  report.Row(row);
}

// Each row in a process of its own; this one opens no device.
ApartResult RunRowsApart(const Flags& flags, const OpenDevice& open,
                         const SuiteOptions& options, const ShowRow& shown) {
  // The first row tells; after one that worked it is a fault of the device.
  bool is_first = true;
  return RunApart(
      SuiteRows(options),
      {.timeout = flags.timeout,
       .seconds = flags.seconds,
       .skip = {flags.skip.begin(), flags.skip.end()},
       .ends =
           [&](const CheckRow& row) {
             return std::exchange(is_first, false) &&
                    row.data.contains("no_device");
           },
       .lines = LinesOf(flags)},
      [&](const std::string& name, const CheckReport& report) {
        RunRow(open, options, name, report);
        return true;
      },
      shown);
}

int Run(const Flags& flags) {
  SuiteOptions options =
      SuiteOptionsFor(flags.size == "small"   ? SuiteSize::kSmall
                      : flags.size == "quick" ? SuiteSize::kQuick
                                              : SuiteSize::kFull);
  options.only = {flags.only.begin(), flags.only.end()};
  if (flags.growth_steps > 0) options.growth.steps = flags.growth_steps;
  if (flags.apart) options.op_cases = kOpCasesApart;
  options.ops.skip = {flags.skip.begin(), flags.skip.end()};
  options.describe = [&](CheckRow* row) {
    DescribeForCudnn(flags.cuda.device, row);
  };
  // Written anew after every row, so that a run that is cut off leaves what it
  // has found.
  nlohmann::ordered_json json = {{"format", "stowage-device-check"},
                                 {"version", 1},
                                 {"size", flags.size},
                                 {"complete", false}};
  std::vector<CheckRow> shown;
  if (flags.resume) shown = KnownRows(flags.output);
  for (const CheckRow& row : shown) options.known.insert(row.name);
  const OpenDevice open = [&](const gpu::BackendOptions& backend) {
    return Open(flags.cuda, backend);
  };
  const auto show = [&](const CheckRow& row) {
    std::cerr << CheckStatusName(row.status) << "  " << row.name << ": "
              << row.figure << std::endl;
    shown.push_back(row);
    json["rows"] = RowsToJson(shown);
    WriteJson(flags.output, json);
  };
  bool written = true;
  if (flags.apart) {
    const ApartResult result = RunRowsApart(flags, open, options, show);
    json["died"] = result.died;
    json["skipped"] = result.skipped;
    json["waiting"] = result.waiting;
    written = result.written;
  } else {
    const auto rows = RunDeviceSuite(open, options, show);
    if (!rows.ok()) {
      json["no_device"] = rows.error().message;
      std::cerr << "device_check: " << rows.error().message << std::endl;
      return WriteJson(flags.output, json) ? kExitNoDevice : kExitUsage;
    }
  }
  // The first row tells; after one that worked it is a fault of the device.
  if (flags.apart && !shown.empty() && shown[0].data.contains("no_device")) {
    json["no_device"] = shown[0].data["no_device"];
    return WriteJson(flags.output, json) ? kExitNoDevice : kExitUsage;
  }
  int failed = 0;
  for (const CheckRow& row : shown) {
    failed += row.status == CheckStatus::kFailed ? 1 : 0;
  }
  json["rows"] = RowsToJson(shown);
  json["complete"] = true;
  json["failed"] = failed;
  std::cout << RowsToText(shown) << std::flush;
  for (const char* list : {"died", "skipped", "waiting"}) {
    if (!json.contains(list) || json[list].empty()) continue;
    std::cout << list << ":";
    for (const auto& name : json[list]) {
      std::cout << " " << Quoted(name.get<std::string>());
    }
    std::cout << "\n";
  }
  if (!WriteJson(flags.output, json)) return kExitUsage;
  if (!written) {
    std::cerr << "device_check: " << Quoted(LinesOf(flags))
              << " cannot be written\n";
    return kExitUsage;
  }
  return failed == 0 ? kExitOk : kExitFailed;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app(
      "Checks what the GPU of this machine computes against the CPU, and "
      "measures it.",
      "device_check");
  app.footer(
      "Exit codes: 0 all checks are ok, 1 one failed, 2 usage, 3 no "
      "device.");
  app.add_option("--size", flags.size,
                 "full, quick (fewer steps) or small (for sanitizers)")
      ->check(CLI::IsMember({"full", "quick", "small"}))
      ->capture_default_str();
  app.add_option("--only", flags.only, "Groups of checks, divided by commas")
      ->delimiter(',')
      ->check(CLI::IsMember(SuiteGroups()));
  app.add_option("-o,--output", flags.output, "Write the rows here as JSON");
  app.add_flag(
      "--resume", flags.resume,
      "Keep the rows that are ok in the JSON of an earlier run, and run "
      "the others");
  app.add_flag("--apart", flags.apart,
               "Run each row in a process of its own, those worth most first; "
               "rows go to FILEl, one a line, too");
  app.add_option("--skip", flags.skip,
                 "A case of the ops to leave out, or with --apart a group or a "
                 "row; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--timeout", flags.timeout,
                 "With --apart: seconds after which a row is killed")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seconds", flags.seconds,
                 "With --apart: seconds after which no row is started")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--device", flags.cuda.device, "Number of the device")
      ->capture_default_str();
  app.add_option("--cublaslt", flags.cuda.matmul_library,
                 "File or folder of cuBLASLt; default: STOWAGE_CUBLASLT, or "
                 "where it usually is");
  app.add_option("--growth-steps", flags.growth_steps,
                 "Steps of the check for growth");
  try {
    app.parse(argc, argv);
    if (flags.resume && flags.output.empty()) {
      throw CLI::ValidationError("--resume",
                                 "wants -o FILE, of an earlier run");
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  return Run(flags);
}

}  // namespace
}  // namespace stowage::testing

int main(int argc, char** argv) {
  // A failed internal check aborts, having said so.
  std::signal(SIGABRT, [](int) { _exit(stowage::testing::kExitBug); });
  return stowage::testing::Main(argc, argv);
}
