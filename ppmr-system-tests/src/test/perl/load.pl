# The load beside which attacks.pl is compared: as many processes on the same processor, of which as many compute without a
# pause, as many pause for 20 ms again and again, and as many are started, sleep and are killed in the same rhythm. None of
# them says anything to a service or looks at a file.
#
#   perl load.pl computing=N pausing=N sleepers=N
use strict;
use warnings;
use POSIX ();
use Time::HiRes qw(sleep);

my %o = map { split /=/, $_, 2 } @ARGV;
my $parent = $$;

sub each_time {
    my ($count, $does) = @_;
    for (1 .. $count) {
        my $child = fork;
        die "fork: $!" if !defined $child;
        next if $child;
        while (1) {
            POSIX::_exit(0) if getppid != $parent;
            $does->();
        }
    }
    return;
}

each_time($o{computing}, sub { my $sum = 0; $sum += $_ for 1 .. 100_000 });
each_time($o{pausing}, sub { sleep 0.02 });
each_time(1, sub {
    my @children;
    for (1 .. $o{sleepers}) {
        my $child = fork;
        last if !defined $child;
        if (!$child) {
            sleep 600;
            POSIX::_exit(0);
        }
        push @children, $child;
    }
    sleep 0.2;
    kill 'KILL', @children;
    waitpid $_, 0 for @children;
});
1 while wait != -1;
