#ifndef PLAIN_H
#define PLAIN_H

#ifdef __cplusplus
extern "C" {
#endif

long plain_sum(long count);

#ifdef __cplusplus
}
#endif

#endif
