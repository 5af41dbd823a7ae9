#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "admission/admission.h"
#include "base/strings.h"

namespace stowage {
namespace {

LedgerJob Nightly() {
  return {.resource = "device:0",
          .capacity = Bytes{8} << 30,
          .bytes = Bytes{2} << 30,
          .name = "nightly  run",
          .is_held = true,
          .ticket = 3,
          .since = 1700000000,
          .process = 4711};
}

TEST_CASE("a record reads back equal, in one line of its length") {
  LedgerJob longest = Nightly();
  longest.resource = std::string(kMaxResourceBytes, 'r');
  longest.name = std::string(kMaxJobNameBytes, 'n');
  longest.is_held = false;
  longest.bytes = longest.capacity = longest.ticket = longest.since =
      longest.process = std::numeric_limits<int64_t>::max();
  for (const LedgerJob& job : {Nightly(), longest}) {
    REQUIRE(CheckJob(job).ok());
    const std::string record = FormatJobRecord(job);
    CHECK(record.size() == kRecordBytes);
    CHECK(record.find('\n') == kRecordBytes - 1);
    const auto read = ParseJobRecord(record);
    REQUIRE(read.has_value());
    CHECK(*read == job);
  }
}

TEST_CASE(
    "a record with any byte changed, or any of its end missing, is none") {
  const std::string record = FormatJobRecord(Nightly());
  for (size_t i = 0; i < record.size(); ++i) {
    CAPTURE(i);
    std::string changed = record;
    changed[i] = changed[i] == 'x' ? 'y' : 'x';
    CHECK_FALSE(ParseJobRecord(changed).has_value());
    CHECK_FALSE(ParseJobRecord(record.substr(0, i)).has_value());
  }
  CHECK_FALSE(ParseJobRecord(std::string(kRecordBytes, '\0')).has_value());
}

TEST_CASE("jobs that no record can hold are refused with their sizes") {
  const auto message_of = [](const LedgerJob& job) {
    const Status status = CheckJob(job);
    return status.ok() ? "" : status.error().message;
  };
  LedgerJob job = Nightly();
  job.resource = "device 0";
  CHECK(message_of(job) ==
        "[admission] the resource \"device 0\" has 8 bytes; expected 1 to 100 "
        "without spaces or control characters, such as device:0");
  job.resource = std::string(101, 'r');
  CHECK(message_of(job).find("has 101 bytes") != std::string::npos);
  for (const std::string& name :
       {std::string(), std::string(" a"), std::string("a "),
        std::string("a\nb"), std::string(257, 'n')}) {
    job = Nightly();
    job.name = name;
    CAPTURE(name);
    CHECK(message_of(job).find(
              StrCat("has ", name.size(), " bytes; expected 1 to 256")) !=
          std::string::npos);
  }
  job = Nightly();
  job.bytes = 0;
  CHECK(message_of(job) ==
        "[admission] \"nightly  run\" asks for 0 bytes of \"device:0\", whose "
        "capacity is 8589934592; both must be at least 1");
  job.bytes = 1;
  job.capacity = -1;
  CHECK(message_of(job).find("whose capacity is -1") != std::string::npos);
}

TEST_CASE("a job is described by its name, bytes, start in UTC and process") {
  CHECK(DescribeJob(Nightly()) ==
        "\"nightly  run\" 2.0 GiB (2147483648 bytes) since "
        "2023-11-14T22:13:20Z, process 4711");
}

}  // namespace
}  // namespace stowage
