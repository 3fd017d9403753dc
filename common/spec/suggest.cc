#include "common/spec/suggest.h"

#include <algorithm>

namespace millstream::spec {
namespace {

constexpr size_t kLongestWord = 64;  // bounds the quadratic comparison; no field name is near

std::string Folded(std::string_view word) {
  std::string out;
  for (char c : word) {
    if (c == '_' || c == '-' || c == ' ') continue;
    out += (c >= 'A' && c <= 'Z') ? static_cast<char>(c | 0x20) : c;
  }
  return out;
}

// Letters to insert, delete, replace or swap with their neighbour.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replace = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replace});
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> Suggest(std::string_view written, const std::vector<std::string>& known) {
  if (written.empty() || written.size() > kLongestWord) return std::nullopt;
  std::string folded = Folded(written);
  const std::string* best = nullptr;
  size_t best_distance = std::max<size_t>(1, folded.size() / 3) + 1;
  for (const std::string& word : known) {
    size_t distance = Distance(folded, Folded(word));
    if (distance < best_distance) {
      best = &word;
      best_distance = distance;
    }
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

}  // namespace millstream::spec
