/* A clock that is wrong: the time of day is off by CLOCK_OFF seconds, for who preloads this.
 *
 * Clocks that only measure how long something takes are left alone, and so are sleeps: a machine
 * whose time of day is wrong has them right. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t off(void)
{
    const char *by = getenv("CLOCK_OFF");
    return by ? atol(by) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += off();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    int failed = (int)syscall(SYS_gettimeofday, now, zone);
    if (!failed)
        now->tv_sec += off();
    return failed;
}

time_t time(time_t *kept)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (kept)
        *kept = now.tv_sec;
    return now.tv_sec;
}
