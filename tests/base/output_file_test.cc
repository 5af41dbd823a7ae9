#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
#include "tests/support/files.h"

namespace {

// What flock answers, as on a file system without locks; 0 where it does its work.
int flock_error = 0;

}  // namespace

// The program's own, which the linker takes before the C library's.
extern "C" int flock(int fd, int operation) noexcept {
  if (flock_error == 0) {
    return static_cast<int>(::syscall(SYS_flock, fd, operation));
  }
  errno = flock_error;
  return -1;
}

namespace stowage {
namespace {

using testing::ReadAll;

namespace fs = std::filesystem;

// An empty folder of this test's own.
fs::path Folder(std::string_view name) {
  const char* const root = std::getenv("TEST_TMPDIR");
  const fs::path folder = fs::path(root == nullptr ? "/tmp" : root) / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

void WriteAll(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// The names in `folder`.
std::vector<std::string> Names(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

std::string Refusal(const fs::path& path) {
  const auto claimed = OutputFile::Claim(path.string());
  REQUIRE_FALSE(claimed.ok());
  CHECK(claimed.error().code == ErrorCode::kIo);
  return claimed.error().message;
}

mode_t ModeOf(const fs::path& path) {
  struct stat info = {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

TEST_CASE("a file system without locks is written to all the same") {
  const fs::path folder = Folder("no_locks");
  const fs::path path = folder / "file",
                 left = folder / ".file.1-0.stowage-part";
  for (const int error : {ENOSYS, ENOLCK, EOPNOTSUPP}) {
    CAPTURE(error);
    WriteAll(left, "another's, perhaps");
    flock_error = error;
    const auto file = OutputFile::Claim(path.string());
    flock_error = 0;
    REQUIRE(file.ok());
    CHECK_FALSE(file->is_locked());
    REQUIRE(file->Replace("bytes").ok());
    CHECK(ReadAll(path.string()) == "bytes");
    CHECK(Names(folder).size() == 2);  // no lock is left
    CHECK(fs::exists(left));
  }
  const auto file = OutputFile::Claim(path.string());
  REQUIRE(file.ok());
  CHECK(file->is_locked());
  CHECK_FALSE(fs::exists(left));
  flock_error = EIO;  // a lock that fails is no lock that is not there
  CHECK(Refusal(folder / "other").find("its lock, ") != std::string::npos);
  flock_error = 0;
}

// The system would end the name there, and never find a free one for a part.
TEST_CASE("a name that holds a NUL is refused") {
  const std::string path = (Folder("nul") / "a").string();
  CHECK(Refusal(path + std::string("\0b", 2)).find("holds a NUL") !=
        std::string::npos);
  CHECK(Names(Folder("nul")).empty());
}

TEST_CASE("a file is replaced whole, and nothing is left beside it") {
  const fs::path folder = Folder("whole");
  const fs::path path = folder / "x.ck";
  // What others keep there is theirs.
  WriteAll(folder / "x.ck.tmp", "mine");
  {
    const auto file = OutputFile::Claim(path.string());
    REQUIRE_MESSAGE(file.ok(), file.error().message);
    CHECK_FALSE(fs::exists(path));
    REQUIRE(file->Replace("one").ok());
    CHECK(ReadAll(path) == "one");
    REQUIRE(file->Replace("two, longer").ok());
    CHECK(ReadAll(path) == "two, longer");
  }
  CHECK(ReadAll(folder / "x.ck.tmp") == "mine");
  CHECK(Names(folder).size() == 2);
}

TEST_CASE(
    "parts may come one by one, and an error on the way keeps the old file") {
  const fs::path folder = Folder("parts");
  const fs::path path = folder / "out";
  WriteAll(path, "old");
  const auto file = OutputFile::Claim(path.string());
  REQUIRE(file.ok());
  const auto write = [&](const Status& end) {
    return file->ReplaceBy([&](const OutputFile::WritePart& part) -> Status {
      for (const std::string_view text : {"one ", "two"}) {
        STOWAGE_RETURN_IF_ERROR(part(std::as_bytes(std::span(text))));
      }
      return end;
    });
  };
  const Status failed = write(Error{ErrorCode::kNotFinite, "no number"});
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.error().message == "no number");
  CHECK(ReadAll(path) == "old");
  CHECK(std::distance(fs::directory_iterator(folder), {}) ==
        2);  // and the lock
  CHECK(write({}).ok());
  CHECK(ReadAll(path) == "one two");
}

TEST_CASE("a claim that is not used changes nothing") {
  const fs::path folder = Folder("unused");
  WriteAll(folder / "x.ck", "old");
  { REQUIRE(OutputFile::Claim((folder / "x.ck").string()).ok()); }
  CHECK(ReadAll(folder / "x.ck") == "old");
  CHECK(Names(folder).size() == 1);
}

TEST_CASE("no output has the name of another's lock") {
  const fs::path folder = Folder("lock-name");
  const auto file = OutputFile::Claim((folder / "run.st").string());
  REQUIRE(file.ok());
  const auto log = OutputFile::Claim((folder / ".run.st.lock").string());
  REQUIRE_FALSE(log.ok());
  CHECK(log.error().message.find("its name is that of the lock") !=
        std::string::npos);
  CHECK(OutputFile::Claim((folder / ".hidden.csv").string()).ok());
}

TEST_CASE("a lock that cannot be taken is named") {
  const fs::path folder = Folder("locks");
  fs::create_directories(folder / ".x.ck.lock");
  const auto claimed = OutputFile::Claim((folder / "x.ck").string());
  REQUIRE_FALSE(claimed.ok());
  CHECK(claimed.error().message.find("x.ck\" cannot be written: its lock, ") !=
        std::string::npos);
  CHECK(claimed.error().message.find(".x.ck.lock\", cannot be taken: Is a "
                                     "directory") != std::string::npos);
}

TEST_CASE("a file that only another user may replace is refused at once") {
  // root alone can be another user, where a sandbox has one.
  if (geteuid() != 0 || seteuid(65534) != 0) {
    MESSAGE("skipped: this test needs two users");
    return;
  }
  REQUIRE(seteuid(0) == 0);
  const fs::path folder = Folder("sticky");
  WriteAll(folder / "x.ck", "old");
  REQUIRE(chmod(folder.c_str(), 01777) == 0);
  REQUIRE(chmod((folder / "x.ck").c_str(), 0666) == 0);
  REQUIRE(seteuid(65534) == 0);
  const auto claimed = OutputFile::Claim((folder / "x.ck").string());
  const auto own = OutputFile::Claim((folder / "own.ck").string());
  REQUIRE(seteuid(0) == 0);
  if (!own.ok()) {
    MESSAGE("skipped: a folder above is closed to others");
    return;
  }
  REQUIRE_FALSE(claimed.ok());
  CHECK(claimed.error().message.find("it is another user's") !=
        std::string::npos);
}

TEST_CASE("a link leads to what is replaced, and stays a link") {
  const fs::path folder = Folder("links");
  fs::create_directories(folder / "far");
  WriteAll(folder / "far" / "x.ck", "old");
  fs::create_symlink("far/x.ck", folder / "link");
  fs::create_symlink("link", folder / "link2");
  fs::create_symlink("far/new.ck", folder / "dangling");
  fs::create_symlink("loop", folder / "loop");
  REQUIRE(OutputFile::Claim((folder / "link2").string())->Replace("new").ok());
  CHECK(fs::is_symlink(folder / "link2"));
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(ReadAll(folder / "far" / "x.ck") == "new");
  REQUIRE(
      OutputFile::Claim((folder / "dangling").string())->Replace("first").ok());
  CHECK(fs::is_symlink(folder / "dangling"));
  CHECK(ReadAll(folder / "far" / "new.ck") == "first");
  CHECK(Refusal(folder / "loop").find("levels of symbolic links") !=
        std::string::npos);
}

TEST_CASE("the mode is kept") {
  const fs::path path = Folder("mode") / "x.ck";
  WriteAll(path, "old");
  for (const mode_t mode : {0600, 0640, 0664}) {
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    REQUIRE(OutputFile::Claim(path.string())->Replace("new").ok());
    CHECK(ModeOf(path) == mode);
  }
}

TEST_CASE("what is no regular file is refused and stays what it is") {
  const fs::path folder = Folder("kinds");
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  fs::create_symlink("fifo", folder / "to_fifo");
  fs::create_directories(folder / "folder");
  CHECK(Refusal(folder / "fifo") ==
        StrCat("[file] ", Quoted((folder / "fifo").string()),
               " cannot be written: it is a pipe, no regular file"));
  CHECK(Refusal(folder / "to_fifo").find("it is a pipe") != std::string::npos);
  CHECK(Refusal(folder / "folder").find("it is a folder") != std::string::npos);
  CHECK(Refusal(folder / "folder/").find("it names a folder") !=
        std::string::npos);
  CHECK(Refusal("/dev/null").find("it is a device") != std::string::npos);
  CHECK(Refusal("").find("the name is empty") != std::string::npos);
  CHECK(Refusal(folder / "none" / "x").find("No such file or directory") !=
        std::string::npos);
  CHECK(Refusal(StrCat(folder.string(), "/", std::string(300, 'x')))
            .find("File name too long") != std::string::npos);
  CHECK(fs::is_fifo(folder / "fifo"));
}

TEST_CASE("a file is claimed once, by whatever path, until the claim ends") {
  const fs::path folder = Folder("claims");
  fs::create_symlink("x.ck", folder / "link");
  {
    const auto first = OutputFile::Claim((folder / "x.ck").string());
    REQUIRE(first.ok());
    CHECK(Refusal(folder / "x.ck").find("another run has claimed it") !=
          std::string::npos);
    CHECK(Refusal(folder / "link").find("another run has claimed it") !=
          std::string::npos);
    CHECK(OutputFile::Claim((folder / "y.ck").string()).ok());
    REQUIRE(first->Replace("x").ok());
    Refusal(folder / "x.ck");  // also of the file that is there now
  }
  CHECK(OutputFile::Claim((folder / "x.ck").string()).ok());
}

TEST_CASE("a claim ends with its process, and what it left is removed") {
  const fs::path folder = Folder("killed");
  const fs::path path = folder / "x.ck";
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const auto file = OutputFile::Claim(path.string());
    // As if it were killed while it writes.
    WriteAll(folder / StrCat(".x.ck.", ::getpid(), "-0.stowage-part"), "half");
    const char byte = file.ok() ? 'y' : 'n';
    if (::write(ready[1], &byte, 1) == 1) ::pause();
    ::_exit(1);
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  CHECK(byte == 'y');
  CHECK(Refusal(path).find("another run has claimed it") != std::string::npos);
  REQUIRE(::kill(child, SIGKILL) == 0);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  ::close(ready[0]), ::close(ready[1]);
  CHECK(Names(folder).size() == 2);  // the part, and the file of the lock
  {
    const auto file = OutputFile::Claim(path.string());
    REQUIRE_MESSAGE(file.ok(), file.error().message);
    REQUIRE(file->Replace("new").ok());
  }
  CHECK(Names(folder) == std::vector<std::string>{"x.ck"});
}

TEST_CASE("what cannot be written whole leaves the old file and nothing else") {
  const fs::path folder = Folder("full");
  const fs::path path = folder / "x.ck";
  WriteAll(path, "old");
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const auto file = OutputFile::Claim(path.string());
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Status status = file->Replace(std::string(5000, 'x'));
    const bool named =
        !status.ok() &&
        status.error().message.find("File too large") != std::string::npos;
    ::_exit(named ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(ReadAll(path) == "old");
  for (const std::string& name : Names(folder)) {
    CHECK(name.find("stowage-part") == std::string::npos);
  }
}

TEST_CASE("a new file that cannot have its name is kept beside, and named") {
  const fs::path folder = Folder("kept");
  const fs::path path = folder / "model";
  {
    const auto file = OutputFile::Claim(path.string());
    REQUIRE(file.ok());
    fs::create_directories(path / "full");
    const Status replaced = file->Replace("all of it");
    REQUIRE_FALSE(replaced.ok());
    CHECK(replaced.error().code == ErrorCode::kIo);
    const std::string kept = StrCat(path.string(), ".kept-", ::getpid());
    CHECK(replaced.error().message ==
          StrCat("[file] \"", path.string(),
                 "\" cannot be written: Is a directory; all that was to be in "
                 "it is in \"",
                 kept, "\""));
    CHECK(ReadAll(kept) == "all of it");
    // The next one takes its place.
    CHECK_FALSE(file->Replace("more of it").ok());
    CHECK(ReadAll(kept) == "more of it");
  }
  CHECK(Names(folder).size() == 2);
}

TEST_CASE("two paths are one file if they lead to one, there or not") {
  const fs::path folder = Folder("same");
  WriteAll(folder / "a", "a");
  fs::create_hard_link(folder / "a", folder / "hard");
  fs::create_symlink("a", folder / "soft");
  fs::create_symlink("new", folder / "soft_new");
  const auto same = [&](std::string_view a, std::string_view b) {
    return IsSameFile((folder / a).string(), (folder / b).string());
  };
  CHECK(same("a", "a"));
  CHECK(same("a", "./a"));
  CHECK_FALSE(same("a", "hard"));  // to replace one leaves the other
  CHECK_FALSE(same("soft", "hard"));
  CHECK(same("soft_new", "new"));
  CHECK_FALSE(same("a", "new"));
  CHECK_FALSE(same("new", "newer"));
  CHECK_FALSE(same("none/new", "none/new"));  // there is no such folder
}

}  // namespace
}  // namespace stowage
