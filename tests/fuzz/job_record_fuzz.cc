// Records of a ledger: what reads is a job that a record can hold, and is written back as
// a record that reads the same. The digest is made right, which an input cannot guess.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "admission/job_record.h"
#include "base/hash.h"
#include "base/strings.h"
#include "tests/fuzz/check.h"

using namespace stowage;
using stowage::testing::Check;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // "job ", the digest, a space, what the input says, and the end of the line.
  constexpr size_t kTextBytes = kRecordBytes - 4 - 16 - 2;
  std::string body = StrCat(" ", text.substr(0, kTextBytes));
  body.resize(kTextBytes + 1, ' ');
  body += '\n';
  Fnv1a hash;
  hash.Update(body);
  const std::optional<LedgerJob> job =
      ParseJobRecord(StrCat("job ", HexDigest(hash.digest()), body));
  if (!job) return 0;
  Check(CheckJob(*job).ok() && job->bytes <= job->capacity);
  const std::optional<LedgerJob> again = ParseJobRecord(FormatJobRecord(*job));
  Check(again && *again == *job);
  return 0;
}
