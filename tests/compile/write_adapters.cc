// Writes a step of adapters beside a quantized model: write_adapters MODEL.gguf FOLDER/step.c

#include <filesystem>
#include <fstream>
#include <iostream>

#include "compile/compile.h"
#include "tests/compile/imported_steps.h"

int main(int count, char** arguments) {
  if (count != 3) {
    std::cerr << "write_adapters: expected a GGUF file and a C file to write\n";
    return 2;
  }
  const auto adapters =
      stowage::testing::PlanAdapters(arguments[1], /*seq=*/12);
  if (!adapters.ok()) {
    std::cerr << adapters.error().message << "\n";
    return 1;
  }
  const auto compiled =
      stowage::CompileToC(adapters->step.graph, adapters->step.plan,
                          {.contents = adapters->contents});
  if (!compiled.ok()) {
    std::cerr << compiled.error().message << "\n";
    return 1;
  }
  const std::filesystem::path path(arguments[2]);
  std::ofstream source(path, std::ios::binary);
  source << compiled->source;
  std::ofstream header(path.parent_path() / "step.h", std::ios::binary);
  header << compiled->header;
  return source.flush() && header.flush() ? 0 : 1;
}
