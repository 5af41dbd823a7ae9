// stowage compile: training steps of ONNX files.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tools/run_stowage.h"

namespace stowage::testing {
namespace {

using Json = nlohmann::json;

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The arguments with -o to a path of its own.
Outcome Compile(std::vector<std::string> arguments, const std::string& source) {
  arguments.insert(arguments.begin(), "compile");
  arguments.insert(arguments.end(), {"-o", source});
  return RunStowage(arguments);
}

TEST_CASE("frozen weights of an ONNX file are constants, beside the arena") {
  const std::string net = "tests/goldens/onnx/vit_script.onnx";
  const std::vector<std::string> all = {"--onnx", net, "--loss",
                                        "cross_entropy", "--json"};
  std::vector<std::string> head = all;
  for (const char* const part : {"class_token", "conv_proj.*", "encoder.*"}) {
    head.insert(head.end(), {"--freeze", part});
  }
  const std::string source = TempPath("head.c");
  const Outcome whole = Compile(all, TempPath("whole.c"));
  const Outcome frozen = Compile(head, source);
  REQUIRE_MESSAGE(whole.exit_code == 0, whole.err);
  REQUIRE_MESSAGE(frozen.exit_code == 0, frozen.err);
  const Json before = Json::parse(whole.out), after = Json::parse(frozen.out);
  CHECK(after["flash_bytes"] == before["flash_bytes"]);
  CHECK(after["saved_bytes"].get<int64_t>() * 10 <
        before["saved_bytes"].get<int64_t>());
  CHECK(after["arena_bytes"].get<int64_t>() <
        before["arena_bytes"].get<int64_t>() / 2);
  CHECK(
      Contains(ReadAll(source), "static const _Alignas(16) uint8_t frozen_0["));
  CHECK(!Contains(ReadAll(TempPath("whole.c")), "frozen_0"));
}

TEST_CASE("an ONNX file's outputs are evaluated with the step's params") {
  const std::string source = TempPath("vit.c");
  const Outcome outcome =
      Compile({"--onnx", "tests/goldens/onnx/vit_script.onnx", "--loss",
               "cross_entropy", "--evaluate", "--json"},
              source);
  REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
  const std::string header = ReadAll(TempPath("vit.h"));
  CHECK(Contains(header, "int vit_evaluate(void);"));
  CHECK(Contains(header, "const float *vit_evaluate_output_y(void);"));
  CHECK(!Contains(header, "vit_evaluate_input_labels"));
  const Outcome refused = Compile(
      {"--onnx", "tests/goldens/onnx/vit_script.onnx", "--evaluate"}, source);
  CHECK(refused.exit_code == 2);
  CHECK_MESSAGE(Contains(refused.err,
                         "--evaluate applies where --model or --loss is given"),
                refused.err);
}

}  // namespace
}  // namespace stowage::testing
