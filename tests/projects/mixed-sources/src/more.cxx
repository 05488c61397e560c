extern const int kMore;
const int kMore = 7;
