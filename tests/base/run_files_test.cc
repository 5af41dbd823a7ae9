#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/files.h"
#include "tests/support/files.h"

namespace stowage {
namespace {

using testing::EmptyFolder;
using testing::ReadAll;

namespace fs = std::filesystem;

std::string WrittenFile(const std::string& path) {
  std::ofstream(path) << "numbers";
  return path;
}

// A program that says nothing reads a file and replaces it; from KeepInputs() on, which
// holds until the program ends, none does.
TEST_CASE("what a run reads it does not write") {
  const std::string folder = EmptyFolder("run_files");
  const std::string before = WrittenFile(folder + "/before");
  REQUIRE(ReadFile(before).ok());
  CHECK(OutputFile::Claim(before).ok());

  KeepInputs();

  const std::string whole = WrittenFile(folder + "/whole");
  REQUIRE(ReadFile(whole).ok());
  const std::string open = WrittenFile(folder + "/open");
  REQUIRE(InputFile::Open(open, "test").ok());
  fs::create_symlink(open, folder + "/link");
  for (const std::string& path :
       {whole, open, folder + "/link", folder + "/../run_files/whole"}) {
    CAPTURE(path);
    const auto claimed = OutputFile::Claim(path);
    REQUIRE_FALSE(claimed.ok());
    CHECK(claimed.error().code == ErrorCode::kInvalidArgument);
    CHECK(claimed.error().message.find(
              path + "\" cannot be written: this run reads it, as \"" +
              folder) != std::string::npos);
    CHECK(ReadAll(path) == "numbers");
  }

  // A hard link is another file: the input stays as it is.
  fs::create_hard_link(whole, folder + "/second name");
  const auto second = OutputFile::Claim(folder + "/second name");
  REQUIRE(second.ok());
  REQUIRE(second->Replace("figures").ok());
  CHECK(ReadAll(whole) == "numbers");

  // A folder that the run makes, and its parents, are no files of the run.
  REQUIRE(NoteFolder(folder + "/new/inner/").ok());
  const auto taken = OutputFile::Claim(folder + "/new");
  REQUIRE_FALSE(taken.ok());
  CHECK(taken.error().code == ErrorCode::kInvalidArgument);
  CHECK(taken.error().message.find(
            "is to be a file, and a folder by that name is made for \"" +
            folder + "/new/inner/\"") != std::string::npos);
  CHECK(OutputFile::Claim(folder + "/newer").ok());
  CHECK_FALSE(NoteFolder(folder + "/newer/inner").ok());
  CHECK(NoteFolder(folder + "/apart").ok());

  const std::string output = WrittenFile(folder + "/output");
  REQUIRE(OutputFile::Claim(output).ok());
  fs::create_symlink(output, folder + "/to output");
  for (const std::string& path : {output, folder + "/to output"}) {
    CAPTURE(path);
    const auto text = ReadFile(path);
    REQUIRE_FALSE(text.ok());
    CHECK(text.error().code == ErrorCode::kInvalidArgument);
    CHECK(text.error().message.find("which it would write over") !=
          std::string::npos);
    CHECK(text.error().message.find('"' + output + '"') != std::string::npos);
    CHECK_FALSE(InputFile::Open(path, "test").ok());
  }
  // Its own: a log that goes on.
  CHECK(ReadFile(output, FileUse::kOwn).ok());

  // Numbered names, of which one is read and one is written already.
  REQUIRE(ReadFile(WrittenFile(folder + "/a.step-10.st")).ok());
  REQUIRE(OutputFile::Claim(folder + "/b.step-4.st").ok());
  const auto numbered = [&](const std::string& stem) {
    return NoteOutputs(stem + ".st", folder + "/" + stem + ".step-", ".st");
  };
  const Status of_input = numbered("a");
  REQUIRE_FALSE(of_input.ok());
  CHECK(of_input.error().message.find("a.step-10.st") != std::string::npos);
  const Status of_output = numbered("b");
  REQUIRE_FALSE(of_output.ok());
  CHECK(of_output.error().message.find(
            "b.step-4.st\" has a name that checkpoints of steps of \"b.st\"") !=
        std::string::npos);
  REQUIRE(numbered("c").ok());
  CHECK_FALSE(OutputFile::Claim(folder + "/c.step-7.st").ok());
  CHECK(OutputFile::Claim(folder + "/c.step-7.st", FileUse::kOwn).ok());
  CHECK_FALSE(ReadFile(WrittenFile(folder + "/c.step-8.st")).ok());
  for (const char* const other :
       {"/c.step-.st", "/c.step-x.st", "/c.step-7.svg", "/c.st"}) {
    CAPTURE(other);
    CHECK(ReadFile(WrittenFile(folder + other)).ok());
  }

  // What comes into being under a claim is claimed, too.
  const auto made = OutputFile::Claim(folder + "/made");
  REQUIRE(made.ok());
  CHECK(OutputFile::Claim(folder + "/other").ok());
  REQUIRE(made->Replace("figures").ok());
  CHECK_FALSE(ReadFile(folder + "/made").ok());
}

}  // namespace
}  // namespace stowage
