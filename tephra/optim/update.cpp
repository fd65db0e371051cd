// SPDX-License-Identifier: Apache-2.0
#include "tephra/optim/update.h"

#include <algorithm>

namespace tephra {

void cut_pieces(Piece whole, std::vector<Piece>& pieces) {
  for (int64_t at = 0; at < whole.size; at += kPieceElements) {
    Piece piece = whole;
    piece.begin += at;
    piece.other += at;
    piece.size = std::min(kPieceElements, whole.size - at);
    pieces.push_back(piece);
  }
}

}  // namespace tephra
