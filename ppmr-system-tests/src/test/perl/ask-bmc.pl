# Asks the node's management controller for its name, as ipmitool does, through /dev/ipmi0 (linux/ipmi.h). Says what it
# is and ends with 0 if the controller answers.
use strict;
use warnings;
use Fcntl;

my $device = $ARGV[0] // '/dev/ipmi0';
# _IOR('i', 13, struct ipmi_req) and _IOWR('i', 11, struct ipmi_recv)
my ($SEND, $RECEIVE) = (0x8028690d, 0xc030690b);
my ($SYSTEM_INTERFACE, $BMC_CHANNEL, $APPLICATION, $GET_DEVICE_ID) = (0x0c, 0x0f, 6, 1);

sysopen my $bmc, $device, O_RDWR or die "$device cannot be opened: $!\n";
my $address = pack 'i s C x', $SYSTEM_INTERFACE, $BMC_CHANNEL, 0;
my $request = pack 'P I x4 q C C S x4 Q', $address, length $address, 1, $APPLICATION, $GET_DEVICE_ID, 0, 0;
ioctl $bmc, $SEND, $request or die "$device takes no request: $!\n";

my $ready = '';
vec($ready, fileno $bmc, 1) = 1;
select $ready, undef, undef, 15 or die "the controller does not answer\n";
my ($from, $data) = ("\0" x 64, "\0" x 64);
my $answer = pack 'i x4 P I x4 q C C S x4 P', 0, $from, length $from, 0, 0, 0, length $data, $data;
ioctl $bmc, $RECEIVE, $answer or die "$device gives no answer: $!\n";
my ($code, $id) = unpack 'C C', $data;
die "the controller refuses: $code\n" if $code;
print "the management controller answers, device $id\n";
