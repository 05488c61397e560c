static constexpr int kSquares[] = {
#include <data/squares.inc>
};

int square_of(int index) {
    return kSquares[index];
}
