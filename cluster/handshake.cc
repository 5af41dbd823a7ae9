#include "cluster/handshake.h"

#include <algorithm>
#include <string_view>

#include "base/strings.h"

namespace stowage::cluster {
namespace {

// A fact in two lines, each without a break in it.
std::string Written(const Facts& facts) {
  std::string text;
  for (const auto& [name, value] : facts) {
    std::string line = value;
    for (char& c : line) {
      if (c == '\n') c = ' ';
    }
    text += StrCat(name, "\n", line, "\n");
  }
  return text;
}

std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

}  // namespace

Status Agree(RankCollectives& collectives, const Facts& facts) {
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                           GatherTexts(collectives, Written(facts)));
  const std::vector<std::string_view> first = Lines(texts[0]);
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const std::vector<std::string_view> other = Lines(texts[rank]);
    for (size_t i = 0; i + 1 < std::min(first.size(), other.size()); i += 2) {
      if (first[i] == other[i] && first[i + 1] == other[i + 1]) continue;
      return Error{ErrorCode::kInvalidArgument,
                   StrCat("[cluster] the ranks differ: ", first[i], " of rank ",
                          rank, " is ", other[i + 1], ", of rank 0 ",
                          first[i + 1], "; all must be the same")};
    }
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[cluster] the ranks differ: rank ", rank, " tells ",
               other.size() / 2, " facts of its run, rank 0 ", first.size() / 2,
               "; start the same program everywhere")};
  }
  return {};
}

}  // namespace stowage::cluster
